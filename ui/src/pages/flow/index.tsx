import { useState } from "preact/hooks";
import { useQuery } from "../../api/query";
import { get } from "../../api/client";
import type { FlowEdge, FlowPage as FlowPageReply, FlowSummary, FlowView, JobSummary } from "../../api/types";
import { Act, Choice, Empty, Link, Loading, Panel, Problem, Stale, StateText, Time } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { Page } from "../../parts/shell";
import { count, ENDED, many, short, stateName } from "../../pure/format";
import { flowRows, stateCounts } from "../../pure/flows";
import { type GraphNode, states } from "../../pure/graph";
import { doing } from "../../pure/words";
import { act, locked } from "../../state/actions";
import { now } from "../../state/clock";
import { go, params, setParams } from "../../state/route";
import { FlowGraph } from "./graph";

const KINDS = { all: null, "under way": "live", failed: "failed" } as const;
type Kind = keyof typeof KINDS;
const NAMES = Object.keys(KINDS) as Kind[];

/** All flows, newest first; a page ends early when its flows have many jobs, and says where to go on. */
export function Flows() {
  const kind = NAMES.find((each) => KINDS[each] === params.value.get("kind")) ?? "all";
  const path = `v1/flows?limit=50${kind === "all" ? "" : `&kind=${KINDS[kind]}`}`;
  const read = useQuery<FlowPageReply>(path, { every: 5, pace: 2 });
  const [older, setOlder] = useState<{ path: string; pages: FlowPageReply[] }>({ path, pages: [] });
  const pages = older.path === path ? older.pages : [];
  const [text, setText] = useState("");
  const flows = flowRows([...(read.data ? [read.data] : []), ...pages]);
  const next = (pages.at(-1) ?? read.data)?.next ?? null;
  async function more(): Promise<void> {
    const page = await get<FlowPageReply>(`${path}&after=${encodeURIComponent(next!)}`);
    setOlder({ path, pages: [...pages, page] });
  }
  return (
    <Page title="Flows">
      <form class="row" onSubmit={(event) => { event.preventDefault(); if (text.trim()) go(`flows/${encodeURIComponent(text.trim())}`); }}>
        <input class="inp grow" aria-label="Id of a flow" placeholder="Id of a flow" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button class="btn" type="submit" disabled={!text.trim()}>Open</button>
      </form>
      <Stale error={read.error} at={read.at} />
      <Panel title="Flows" note="newest first" tools={<Choice label="Which flows" options={NAMES} value={kind} onChange={(each) => setParams({ kind: KINDS[each] })} />}>
        {!read.data ? (read.error ? <Problem error={read.error} /> : <Loading rows={4} />) : !flows.length
          ? (next ? <Empty title="None among the newest flows">Older ones have not been looked at.</Empty>
            : <Empty title={kind === "all" ? "No flow yet" : kind === "failed" ? "No flow has failed" : "No flow is under way"}>A flow is jobs that wait for each other, stored in one transaction: app.flow(…).submit().</Empty>)
          : <table class="cards"><thead><tr><th>Flow</th><th>States</th><th class="n">Jobs</th><th class="n">Submitted</th><th class="n">Ended</th></tr></thead><tbody>
            {flows.map((flow) => <FlowRow key={flow.id} flow={flow} />)}
          </tbody></table>}
        {next && <div class="body"><Act kind="quiet" onClick={more}>Older flows</Act></div>}
      </Panel>
    </Page>
  );
}

function FlowRow({ flow }: { flow: FlowSummary }) {
  const counts = stateCounts(flow.counts);
  const total = counts.reduce((sum, [, value]) => sum + value, 0);
  return (
    <tr>
      <td><Link class="b mono" to={`flows/${encodeURIComponent(flow.id)}`}>{short(flow.id)}</Link> <span class="q">{flow.correlation_id ?? flow.type}</span></td>
      <td class="sub"><CountBar counts={counts} /></td>
      <td class="n">{count(total)}{flow.is_complete === false && "+"}</td>
      <td class="n h"><Time at={flow.created_at} /></td>
      <td class="n h">{flow.is_live ? <span class="c s-running b sm">under way</span> : <Time at={flow.ended_at} />}</td>
    </tr>
  );
}

export const StateBar = ({ jobs }: { jobs: JobSummary[] }) => <CountBar counts={states(jobs)} />;

/** How many are in which state, as a bar; the words say the same. */
function CountBar({ counts }: { counts: [string, number][] }) {
  let x = 0;
  const total = counts.reduce((sum, [, value]) => sum + value, 0);
  const words = counts.map(([state, value]) => `${value} ${stateName(state).toLowerCase()}`).join(", ");
  return (
    <svg class="statebar" viewBox="0 0 200 8" preserveAspectRatio="none" role="img" aria-label={words}>
      <title>{words}</title>
      {counts.map(([state, value]) => {
        const width = (value / Math.max(total, 1)) * 200;
        x += width;
        return <rect key={state} class={`fill s-${state}`} x={x - width} width={Math.max(width - 1, 1)} height="8" />;
      })}
    </svg>
  );
}

export function FlowPage({ id }: { id: string }) {
  const read = useQuery<FlowView & { edges?: FlowEdge[] }>(`v1/flows/${encodeURIComponent(id)}`, { every: 3 });
  const [chosen, setChosen] = useState<GraphNode | null>(null);
  const above = { path: "flows", name: "Flows" };
  if (!read.data) {
    return (
      <Page title={short(id)} above={above}><section class="panel">
        {read.error?.status === 404 ? <Empty title="No flow has this id">It never existed, or retention has removed all of it.</Empty> : read.error ? <Problem error={read.error} /> : <Loading rows={6} />}
      </section></Page>
    );
  }
  const entries = Object.entries(read.data.jobs);
  const jobs = entries.map(([, job]) => job);
  const names = chosen ? chosen.names : [];
  return (
    <Page title={short(id)} above={above}>
      <Head id={id} jobs={jobs} />
      <Stale error={read.error} at={read.at} />
      <div class="grid-21">
        <div class="stack">
          {read.data.edges && <Panel title="Graph" note="the thick line is the critical path"><FlowGraph flow={read.data} edges={read.data.edges} chosen={chosen?.id ?? null} onChoose={setChosen} /></Panel>}
          <Panel title="Jobs" note={count(jobs.length)}>
            <table class="cards"><thead><tr><th>Node</th><th>State</th><th>Type</th><th>What it is doing, or waits for</th></tr></thead><tbody>
              {entries.slice(0, 300).map(([name, job]) => (
                <tr key={name} aria-selected={names.includes(name)}>
                  <td><Link class="b" to={`jobs/${job.id}`}>{name}</Link></td><td><StateText state={job.state} /></td><td class="h m">{job.type}</td><td class="sub m tr">{doing(job, now.value)}</td>
                </tr>
              ))}
            </tbody></table>
          </Panel>
        </div>
        <Panel title={chosen ? chosen.names[0]! : "Counts"}>
          {chosen ? <Chosen node={chosen} jobs={read.data.jobs} /> : <dl class="kv body">{states(jobs).map(([state, value]) => [<dt key={state}><StateText state={state} /></dt>, <dd key={`${state} n`}>{count(value)}</dd>])}</dl>}
        </Panel>
      </div>
    </Page>
  );
}

function Chosen({ node, jobs }: { node: GraphNode; jobs: Record<string, JobSummary> }) {
  return (
    <ul class="body nodes">
      {node.names.slice(0, 20).map((name) => jobs[name] && (
        <li key={name}><Link class="row" to={`jobs/${jobs[name]!.id}`}><StateText state={jobs[name]!.state} /><span class="tr">{name}</span><span class="q sm tr">{doing(jobs[name]!, now.value)}</span></Link></li>
      ))}
    </ul>
  );
}

function Head({ id, jobs }: { id: string; jobs: JobSummary[] }) {
  const live = jobs.filter((job) => !ENDED.has(job.state)).length;
  const again = jobs.filter((job) => ["failed", "dead_letter", "cancelled"].includes(job.state)).length;
  const path = `v1/flows/${encodeURIComponent(id)}`;
  return (
    <div class="jobhead">
      <div class="row wrap">
        <h2 class="title">Flow {jobs[0]?.correlation_id ?? short(id)}</h2><span class="grow" />
        <Act role={locked("operate")} isOff={!again} onClick={() => act<{ count: number }>("POST", `${path}/retry`, (reply) => `${many(reply.count, "job")} run again.`)}>Retry {again > 0 && count(again)}</Act>
        <Act role={locked("operate")} kind="danger" isOff={!live} onClick={() => ask({
          title: `Cancel ${many(live, "job")} of this flow?`, count: live, button: `Cancel ${count(live)}`, isDangerous: true,
          text: `${count(jobs.filter((job) => job.state === "running").length)} that run lose their lease now, the others never start. They can be retried later.`,
          onYes: () => act<{ count: number }>("POST", `${path}/cancel`, (reply) => `${many(reply.count, "job")} cancelled.`),
        })}>Cancel…</Act>
      </div>
      <StateBar jobs={jobs} />
      <div class="facts"><span class="mono">{id}</span><span>{many(jobs.filter((job) => job.state === "completed").length, "job")} of {count(jobs.length)} done</span></div>
    </div>
  );
}
