// A flow in words: what a node is doing or waits for, what ended it, and what it holds up.

import type { FlowEdge, JobSummary } from "../api/types";
import { age, between, duration, ENDED, relative } from "./format";
import type { GraphNode } from "./graph";
import { className } from "./trace";

type Jobs = Record<string, JobSummary>;

export const FAILED = ["failed", "dead_letter"];

/** The job of the flow whose end ended *job* before it ran; null if it ended by itself. */
export function culprit(job: JobSummary, jobs: Jobs): string | null {
  const id = job.failure?.failed_dependency;
  if (!id) return null;
  return Object.keys(jobs).find((name) => jobs[name]!.id === id) ?? null;
}

/** The jobs that failed by themselves, and those that each of them ended, in the order of the flow. */
export function failures(jobs: Jobs): { name: string; ended: string[] }[] {
  const ended = new Map<string, string[]>();
  const roots: string[] = [];
  for (const [name, job] of Object.entries(jobs)) {
    if (!ENDED.has(job.state) || job.state === "completed") continue;
    const by = culprit(job, jobs);
    if (by) ended.set(by, [...(ended.get(by) ?? []), name]);
    else if (FAILED.includes(job.state)) roots.push(name);
  }
  return roots.map((name) => ({ name, ended: reached(name, ended) }));
}

/** All that can be reached from *name*, without it. */
function reached(name: string, next: Map<string, string[]>): string[] {
  const found = new Set<string>();
  const left = [...(next.get(name) ?? [])];
  while (left.length) {
    const each = left.shift()!;
    if (found.has(each) || each === name) continue;
    found.add(each);
    left.push(...(next.get(each) ?? []));
  }
  return [...found];
}

/** What *names* wait for, and how many others wait for them, at once or in turn. */
export function around(names: string[], edges: FlowEdge[]): { after: string[]; holdsUp: number } {
  const next = new Map<string, string[]>();
  for (const edge of edges) next.set(edge.from, [...(next.get(edge.from) ?? []), edge.to]);
  const after = [...new Set(edges.filter((edge) => names.includes(edge.to)).map((edge) => edge.from))];
  const held = new Set(names.flatMap((name) => reached(name, next)));
  for (const name of names) held.delete(name);
  return { after, holdsUp: held.size };
}

export const titleOf = (node: GraphNode) => (node.names.length > 1 ? `${node.type} × ${node.names.length}` : node.names[0]!);

/** The second line of a node. */
export function noteOf(node: GraphNode, jobs: Jobs, edges: FlowEdge[], now: number): string {
  if (node.names.length > 1) return groupNote(node);
  const job = node.jobs[0]!;
  switch (job.state) {
    case "running": return `attempt ${job.attempt} of ${job.max_attempts} · ${age(job.started_at ? between(job.started_at, now) : 0)}`;
    case "completed": return job.started_at && job.completed_at ? duration(between(job.started_at, job.completed_at)) : "done";
    case "pending": return pendingNote(node.names[0]!, jobs, edges);
    case "retrying": case "delayed": return between(job.run_at, now) >= 0 ? "due now" : `next ${relative(job.run_at, now)}`;
    case "scheduled": return "ready";
    default: return endNote(job, jobs);
  }
}

function groupNote(node: GraphNode): string {
  const of = (state: string) => node.jobs.filter((each) => each.state === state).length;
  const running = of("running");
  return `${of("completed")} of ${node.jobs.length} done${running ? `, ${running} run` : ""}`;
}

function pendingNote(name: string, jobs: Jobs, edges: FlowEdge[]): string {
  const open = edges.filter((edge) => edge.to === name && jobs[edge.from] && !ENDED.has(jobs[edge.from]!.state));
  if (open.length === 1) return `waits for ${open[0]!.from}`;
  return open.length ? `waits for ${open.length}` : "waits";
}

function endNote(job: JobSummary, jobs: Jobs): string {
  const by = culprit(job, jobs);
  if (by) return `never ran: ${by}`;
  if (job.state === "cancelled") return job.started_at ? "cancelled as it ran" : "cancelled";
  return className(job.failure?.exception) || job.failure?.message.split("\n")[0] || "failed";
}

/** The state of a flow as a whole: it runs as long as one of its jobs may still run. */
export function stateOfFlow(jobs: JobSummary[]): string {
  const has = (...states: string[]) => jobs.some((job) => states.includes(job.state));
  if (has("running")) return "running";
  const live = ["retrying", "scheduled", "delayed", "pending"].find((state) => has(state));
  if (live) return live;
  if (has("dead_letter")) return "dead_letter";
  return has("failed") ? "failed" : has("completed") ? "completed" : "cancelled";
}

/** When a flow began and ended, in milliseconds; its end is *now* as long as it is under way. */
export function spanOf(jobs: JobSummary[], now: number): { from: number; to: number; isOver: boolean } {
  const from = Math.min(...jobs.map((job) => Date.parse(job.created_at)));
  const isOver = jobs.every((job) => job.completed_at);
  return { from, to: isOver ? Math.max(...jobs.map((job) => Date.parse(job.completed_at!))) : now, isOver };
}
