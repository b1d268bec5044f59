// One flow: how far it is, its graph, what took the time, and what is wrong with it.

import { useState } from "preact/hooks";
import { useQuery } from "../../api/query";
import type { FlowEdge, FlowView, JobSummary } from "../../api/types";
import { Choice, Empty, Link, Loading, Problem, Stale, StateText } from "../../parts/basics";
import { Page } from "../../parts/shell";
import { failures, FAILED, spanOf } from "../../pure/flow-words";
import { many, short } from "../../pure/format";
import { type Graph, graphOf } from "../../pure/graph";
import { doing } from "../../pure/words";
import { now } from "../../state/clock";
import { FlowGraph, GraphLegend } from "./graph";
import { FlowHead } from "./head";
import { FailurePanel, NodePanel } from "./node";
import { WaterfallPanel } from "./waterfall";

export { Flows } from "./list";

const VIEWS = ["Graph", "List"] as const;
const LIST_MAX = 300;
const FAILURES_SHOWN = 3;

export function FlowPage({ id }: { id: string }) {
  const read = useQuery<FlowView>(`v1/flows/${encodeURIComponent(id)}`, { every: 3 });
  const [chosen, choose] = useState<string | null>(null);
  const [view, setView] = useState<(typeof VIEWS)[number]>("Graph");
  const above = { path: "flows", name: "Flows" };
  if (!read.data) {
    return (
      <Page title={short(id)} above={above}><section class="panel">
        {read.error?.status === 404 ? <Empty title="No flow has this id">It never existed, or retention has removed all of it.</Empty> : read.error ? <Problem error={read.error} /> : <Loading rows={6} />}
      </section></Page>
    );
  }
  const { jobs } = read.data;
  const edges = read.data.edges ?? [];
  const graph = graphOf(jobs, edges);
  const node = graph.nodes.find((each) => each.id === chosen) ?? graph.nodes.find((each) => each.id === ofInterest(graph));
  const isList = view === "List" || !edges.length;
  const name = Object.values(jobs)[0]?.correlation_id ?? short(id);
  return (
    <Page title={name} above={above}>
      <FlowHead id={id} name={name} jobs={jobs} edges={edges} />
      <Stale error={read.error} at={read.at} />
      <div class="grid-21">
        <div class="stack">
          <section class="panel">
            <header><h2>{isList ? "Jobs" : "Graph"}</h2>{!isList && <GraphLegend />}<span class="grow" />{edges.length > 0 && <Choice label="View" options={VIEWS} value={view} onChange={setView} />}</header>
            {isList ? <JobTable jobs={jobs} names={node?.names ?? []} /> : (
              <>
                <FlowGraph graph={graph} jobs={jobs} edges={edges} chosen={node?.id ?? null} onChoose={(each) => choose(each.id)} />
                <div class="foot">Drag or use the arrow keys to pan. Equal siblings are one node from 40 jobs on.</div>
              </>
            )}
          </section>
          <WaterfallPanel graph={graph} span={spanOf(Object.values(jobs), now.value)} />
        </div>
        <div class="stack">
          {node && <NodePanel node={node} jobs={jobs} edges={edges} />}
          {failures(jobs).slice(0, FAILURES_SHOWN).map((each) => <FailurePanel key={each.name} job={jobs[each.name]!} {...each} />)}
        </div>
      </div>
    </Page>
  );
}

/** The node to look at first: one that runs, on the critical path if there is one, else one that failed. */
function ofInterest(graph: Graph): string | undefined {
  const critical = new Set(graph.edges.filter((edge) => edge.isCritical).flatMap((edge) => [edge.from, edge.to]));
  const running = graph.nodes.filter((node) => node.state === "running");
  const found = running.find((node) => critical.has(node.id)) ?? running[0]
    ?? graph.nodes.find((node) => FAILED.includes(node.state)) ?? graph.nodes.find((node) => node.state !== "completed") ?? graph.nodes.at(-1);
  return found?.id;
}

function JobTable({ jobs, names }: { jobs: Record<string, JobSummary>; names: string[] }) {
  const entries = Object.entries(jobs);
  return (
    <>
      <table class="cards"><thead><tr><th>Node</th><th>State</th><th>Type</th><th>What it is doing, or waits for</th></tr></thead><tbody>
        {entries.slice(0, LIST_MAX).map(([name, job]) => (
          <tr key={name} aria-selected={names.includes(name)}>
            <td><Link class="b" to={`jobs/${job.id}`}>{name}</Link></td><td><StateText state={job.state} /></td><td class="h m">{job.type}</td><td class="sub m tr">{doing(job, now.value)}</td>
          </tr>
        ))}
      </tbody></table>
      {entries.length > LIST_MAX && <div class="foot">{many(entries.length - LIST_MAX, "more job")} not shown</div>}
    </>
  );
}

export type Parts = { jobs: Record<string, JobSummary>; edges: FlowEdge[] };
