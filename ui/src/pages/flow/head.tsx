// What a flow is, how far it is, and what can be done with all of it.

import { Act, Pill } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { CountBar, StateLegend } from "../../parts/state-bar";
import { FAILED, spanOf, stateOfFlow } from "../../pure/flow-words";
import { count, duration, ENDED, exact, many, relative, stateName } from "../../pure/format";
import { criticalPath, states } from "../../pure/graph";
import { act, locked } from "../../state/actions";
import { now } from "../../state/clock";
import type { Parts } from "./index";

const PATH_MAX = 8;

export function FlowHead({ id, name, jobs, edges }: Parts & { id: string; name: string }) {
  const all = Object.values(jobs);
  const counts = states(all);
  const state = stateOfFlow(all);
  const span = spanOf(all, now.value);
  const begun = new Date(span.from).toISOString();
  return (
    <div class="jobhead">
      <div class="row wrap">
        <h2 class="title">{name}</h2>
        <Pill state={state}>{stateName(state)} · {duration((span.to - span.from) / 1000)}</Pill>
        <span class="grow" />
        <Actions path={`v1/flows/${encodeURIComponent(id)}`} jobs={Object.values(jobs)} />
      </div>
      <div class="facts">
        <span class="mono">{id}</span>
        <span><span class="q">jobs</span>{count(all.length)}</span>
        <span title={exact(begun)}><span class="q">submitted</span>{relative(begun, now.value)}</span>
        <CriticalPath jobs={jobs} edges={edges} />
      </div>
      <CountBar counts={counts} isWide />
      <StateLegend counts={counts} />
    </div>
  );
}

function CriticalPath({ jobs, edges }: Parts) {
  const path = criticalPath(jobs, edges);
  const targets = new Set(path.values());
  const names: string[] = [];
  for (let at = [...path.keys()].find((name) => !targets.has(name)); at !== undefined && names.length <= PATH_MAX; at = path.get(at)) names.push(at);
  if (names.length < 2) return null;
  return (
    <span><span class="q">critical path</span>
      {names.slice(0, PATH_MAX).map((name, index) => <>{index > 0 && ", "}{jobs[name]!.state === "running" ? <b>{name}</b> : name}</>)}
      {names.length > PATH_MAX && " …"}
    </span>
  );
}

function Actions({ path, jobs }: { path: string; jobs: { state: string }[] }) {
  const live = jobs.filter((job) => !ENDED.has(job.state)).length;
  const running = jobs.filter((job) => job.state === "running").length;
  const again = jobs.filter((job) => FAILED.includes(job.state) || job.state === "cancelled").length;
  return (
    <>
      <Act role={locked("operate")} isOff={!again} title={again ? undefined : "None has failed"} onClick={() => act<{ count: number }>("POST", `${path}/retry`, (reply) => `${many(reply.count, "job")} run again.`)}>Retry {again > 0 && count(again)}</Act>
      <Act role={locked("operate")} kind="danger" isOff={!live} title={live ? undefined : "All have ended"} onClick={() => ask({
        title: `Cancel ${many(live, "job")} of this flow?`, count: live, button: `Cancel ${count(live)}`, isDangerous: true,
        text: `${many(running, "job")} that run${running === 1 ? "s loses its lease" : " lose their lease"} now, the others never start. They can be retried later.`,
        onYes: () => act<{ count: number }>("POST", `${path}/cancel`, (reply) => `${many(reply.count, "job")} cancelled.`),
      })}>Cancel…</Act>
    </>
  );
}
