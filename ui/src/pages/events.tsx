// Events that were sent, with the jobs that each started.

import { useQuery } from "../api/query";
import type { EventPage } from "../api/types";
import { Empty, JobLink, Loading, Panel, Problem, Stale, Time } from "../parts/basics";
import { Page } from "../parts/shell";

export function Events() {
  const read = useQuery<EventPage>("v1/events?limit=100", { every: 5, pace: 3 });
  const events = read.data?.events;
  return (
    <Page title="Events">
      <Stale error={read.error} at={read.at} />
      <Panel title="Events" note="newest first, and what they started">
        {!events ? (read.error ? <Problem error={read.error} /> : <Loading rows={4} />) : !events.length
          ? <Empty title="No event yet">app.event("user.created").send(…) sends one; each handler of it becomes a job.</Empty>
          : <table class="cards"><thead><tr><th>Event</th><th>Sent</th><th>Key</th><th>Started</th></tr></thead><tbody>
            {events.map((event) => (
              <tr key={event.id}>
                <td><b>{event.name}</b></td><td><Time at={event.sent_at} /></td><td class="h mono">{event.key ?? <span class="q">–</span>}</td>
                <td class="sub wrapok">{event.jobs.length ? event.jobs.map((job) => <span key={job.id}>{job.type} <JobLink id={job.id} />{job.duplicate && <span class="q"> (was there)</span>}&ensp;</span>) : <span class="q">nobody listened</span>}</td>
              </tr>
            ))}
          </tbody></table>}
      </Panel>
    </Page>
  );
}
