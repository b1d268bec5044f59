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
      <Panel title="Crons" note={crons?.length ? noteOf(crons) : undefined}>
        {!crons ? (read.error ? <Problem error={read.error} /> : <Loading rows={4} />) : !crons.length
          ? <Empty title="No cron yet">@app.cron("0 9 * * 1-5") above a task declares one; a worker of that app brings it here.</Empty>
          : <WithPauses isNeeded={crons.some((cron) => cron.is_paused)}><div class="scroll"><table class="cards acted">
            <thead><tr><th>Cron</th><th>When</th><th>Expression</th><th>Next</th><th>Last</th><th>Last 12 runs</th><th class="n">Actions</th></tr></thead>
            <tbody>{crons.map((cron) => <CronRow key={cron.name} cron={cron} />)}</tbody>
          </table></div></WithPauses>}
      </Panel>
    </Page>
  );
}

function noteOf(crons: CronView[]): string {
  const paused = crons.filter((cron) => cron.is_paused).length;
  return `${crons.length}${paused ? `, ${paused} paused` : ""}. Times are in your zone; each tick submits one job, however many workers run.`;
}

function CronRow({ cron }: { cron: CronView }) {
  async function run(): Promise<void> {
    const made = await act<{ id: string }>("POST", `v1/crons/${named(cron.name)}/run`, `${cron.name} was submitted.`);
    if (made?.id) go(`jobs/${made.id}`);
  }
  return (
    <tr class={cron.is_paused ? "off" : ""}>
      <td><CronName cron={cron} /></td>
      <td class="sub wrapok">{sentence(cron.description)}</td>
      <td class="h"><code>{cron.expression}</code> <span class="q sm" title={cron.tz}>{cron.tz.split("/").pop()!.replaceAll("_", " ")}</span></td>
      <td class={cron.is_paused ? "sub" : "h"}>{cron.is_paused ? <Paused kind="cron" name={cron.name} /> : <Time at={cron.next_tick} />}</td>
      <Runs cron={cron} />
      <td class="sub do"><span class="row acts">
        <Act role={locked("operate")} kind="quiet" onClick={run}>Run now</Act>
        <Act role={locked("operate")} kind="quiet" onClick={() => setPaused("crons", cron.name, !cron.is_paused)}>{cron.is_paused ? "Resume" : "Pause"}</Act>
      </span></td>
    </tr>
  );
}

/** Leads to the jobs of the type that it submits, which may have another name. */
function CronName({ cron }: { cron: CronView }) {
  if (!cron.type) return <b class="tr">{cron.name}</b>;
  return <Link class="tr" to={`jobs?type=${encodeURIComponent(cron.type)}`}><b>{cron.name}</b>{cron.type !== cron.name && <span class="q sm"> {cron.type}</span>}</Link>;
}

/** The last run, and the last twelve with the oldest at the left; each leads to its job. */
function Runs({ cron }: { cron: CronView }) {
  const read = useQuery<CronRuns>(`v1/crons/${named(cron.name)}/runs`, { every: 15, pace: 10 });
  const runs = [...(read.data?.runs ?? [])].reverse();
  const last = runs.at(-1);
  return (
    <>
      <td class="h">{last ? <span class="row"><Glyph state={last.state} /><Time at={last.tick ?? last.created_at} /></span> : <Time at={cron.last_tick} />}</td>
      <td class="h">{runs.length ? <span class="runs">{runs.map((run) => <RunLink key={run.job_id} run={run} />)}</span> : <span class="q">{read.data ? "none kept" : "–"}</span>}</td>
    </>
  );
}

function RunLink({ run }: { run: CronRuns["runs"][number] }) {
  const words = `${stateName(run.state)}, ${exact(run.tick ?? run.created_at)}${run.tick ? "" : ", by hand"}`;
  return <Link to={`jobs/${run.job_id}`} title={words} aria-label={words}><Glyph state={run.state} /></Link>;
}
