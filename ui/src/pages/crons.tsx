// Crons: the words first, the expression second.

import { useQuery } from "../api/query";
import type { CronRuns, CronView, Crons as CronsReply } from "../api/types";
import { Act, Empty, Glyph, Link, Loading, Panel, Problem, Stale, Time } from "../parts/basics";
import { Page } from "../parts/shell";
import { Paused, WithPauses } from "../parts/paused";
import { exact, sentence, stateName } from "../pure/format";
import { act, locked, named, setPaused } from "../state/actions";
import { go } from "../state/route";

export function Crons() {
  const read = useQuery<CronsReply>("v1/crons", { every: 5, pace: 5 });
  const crons = read.data?.crons;
  return (
    <Page title="Crons">
      <Stale error={read.error} at={read.at} />
      <Panel title="Crons" note={crons && "each tick submits one job, however many workers run"}>
        {!crons ? (read.error ? <Problem error={read.error} /> : <Loading rows={4} />) : !crons.length
          ? <Empty title="No cron yet">@app.cron("0 9 * * 1-5") above a task declares one; a worker of that app brings it here.</Empty>
          : <WithPauses isNeeded={crons.some((cron) => cron.is_paused)}><div class="scroll"><table class="cards">
            <thead><tr><th>Cron</th><th>When</th><th>Next</th><th>Last</th><th>Last runs</th><th>Submits</th><th class="n">Actions</th></tr></thead>
            <tbody>{crons.map((cron) => <CronRow key={cron.name} cron={cron} />)}</tbody>
          </table></div></WithPauses>}
      </Panel>
    </Page>
  );
}

function CronRow({ cron }: { cron: CronView }) {
  async function run(): Promise<void> {
    const made = await act<{ id: string }>("POST", `v1/crons/${named(cron.name)}/run`, `${cron.name} was submitted.`);
    if (made?.id) go(`jobs/${made.id}`);
  }
  return (
    <tr class={cron.is_paused ? "off" : ""}>
      <td><span class="row"><b class="tr">{cron.name}</b>{cron.is_paused && <Paused kind="cron" name={cron.name} />}</span></td>
      <td class="sub wrapok">{sentence(cron.description)} <code class="q">{cron.expression}</code> <span class="q sm">{cron.tz}</span></td>
      <td class="h">{cron.is_paused ? <span class="q">–</span> : <Time at={cron.next_tick} />}</td>
      <td class="h"><Time at={cron.last_tick} /></td>
      <td class="h"><Runs cron={cron} /></td>
      <td class="h">{cron.type ? <Link class="link" to={`jobs?type=${encodeURIComponent(cron.type)}`}>{cron.type}</Link> : <span class="q">not known here</span>}</td>
      <td class="sub"><span class="row acts">
        <Act role={locked("operate")} kind="quiet" onClick={run}>Run now</Act>
        <Act role={locked("operate")} kind="quiet" onClick={() => setPaused("crons", cron.name, !cron.is_paused)}>{cron.is_paused ? "Resume" : "Pause"}</Act>
      </span></td>
    </tr>
  );
}

/** The last twelve runs, the oldest at the left; each leads to its job. */
function Runs({ cron }: { cron: CronView }) {
  const read = useQuery<CronRuns>(`v1/crons/${named(cron.name)}/runs`, { every: 15, pace: 10 });
  const runs = [...(read.data?.runs ?? [])].reverse();
  if (!runs.length) return <span class="q">{read.data ? "none kept" : "–"}</span>;
  return (
    <span class="runs">
      {runs.map((run) => {
        const words = `${stateName(run.state)}, ${exact(run.tick ?? run.created_at)}${run.tick ? "" : ", by hand"}`;
        return <Link key={run.job_id} to={`jobs/${run.job_id}`} title={words} aria-label={words}><Glyph state={run.state} /></Link>;
      })}
    </span>
  );
}
