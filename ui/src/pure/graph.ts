// A flow as a graph: equal siblings as one node, the critical path, and places by dagre.

import type { FlowEdge, JobSummary } from "../api/types";
import { ENDED } from "./format";

export type GraphNode = { id: string; names: string[]; type: string; state: string; jobs: JobSummary[] };
/** *isBlame*: the one that waited ended because the other did not complete, and never ran. */
export type GraphEdge = { from: string; to: string; isCritical: boolean; isDone: boolean; isBlame: boolean };
export type Graph = { nodes: GraphNode[]; edges: GraphEdge[] };

/** From this many nodes on, siblings with the same neighbours and type are drawn as one. */
export const GROUPED_FROM = 40;
const WORST = ["failed", "dead_letter", "cancelled", "running", "retrying", "delayed", "scheduled", "pending", "completed"];

export function graphOf(jobs: Record<string, JobSummary>, edges: FlowEdge[]): Graph {
  const names = Object.keys(jobs);
  const known = edges.filter((edge) => Object.hasOwn(jobs, edge.from) && Object.hasOwn(jobs, edge.to));
  const owner = names.length >= GROUPED_FROM ? siblings(jobs, known) : new Map(names.map((name) => [name, name]));
  const nodes = new Map<string, GraphNode>();
  for (const name of names) {
    const id = owner.get(name)!;
    const node = nodes.get(id) ?? { id, names: [], type: jobs[name]!.type, state: "completed", jobs: [] };
    node.names.push(name);
    node.jobs.push(jobs[name]!);
    nodes.set(id, node);
  }
  for (const node of nodes.values()) node.state = WORST.find((state) => node.jobs.some((job) => job.state === state)) ?? "pending";
  const critical = criticalPath(jobs, known);
  const drawn = new Map<string, GraphEdge>();
  for (const edge of known) {
    const [from, to] = [owner.get(edge.from)!, owner.get(edge.to)!];
    const key = JSON.stringify([from, to]);
    const isCritical = critical.has(edge.from) && critical.get(edge.from) === edge.to;
    const isDone = jobs[edge.from]!.state === "completed";
    const old = drawn.get(key);
    const isBlame = jobs[edge.to]!.failure?.failed_dependency != null && ENDED.has(jobs[edge.from]!.state) && jobs[edge.from]!.state !== "completed";
    drawn.set(key, {
      from, to, isCritical: isCritical || old?.isCritical === true, isDone: isDone && old?.isDone !== false, isBlame: isBlame || old?.isBlame === true,
    });
  }
  return { nodes: [...nodes.values()], edges: [...drawn.values()] };
}

/** Nodes of one type with the same neighbours, by the name of the first. */
function siblings(jobs: Record<string, JobSummary>, edges: FlowEdge[]): Map<string, string> {
  const before = new Map<string, string[]>();
  const after = new Map<string, string[]>();
  for (const edge of edges) {
    before.set(edge.to, [...(before.get(edge.to) ?? []), edge.from]);
    after.set(edge.from, [...(after.get(edge.from) ?? []), edge.to]);
  }
  const first = new Map<string, string>();
  const owner = new Map<string, string>();
  for (const name of Object.keys(jobs)) {
    const key = JSON.stringify([jobs[name]!.type, before.get(name)?.sort(), after.get(name)?.sort()]);
    if (!first.has(key)) first.set(key, name);
    owner.set(name, first.get(key)!);
  }
  return owner;
}

const took = (job: JobSummary) => {
  if (!job.started_at) return 0;
  const end = job.completed_at ? Date.parse(job.completed_at) : ENDED.has(job.state) ? Date.parse(job.updated_at) : Date.now();
  return Math.max(0, end - Date.parse(job.started_at));
};

/** The longest chain by run time, as each node with the next. */
export function criticalPath(jobs: Record<string, JobSummary>, edges: FlowEdge[]): Map<string, string> {
  const next = new Map<string, string[]>();
  const left = new Map<string, number>(Object.keys(jobs).map((name) => [name, 0]));
  for (const edge of edges) {
    next.set(edge.from, [...(next.get(edge.from) ?? []), edge.to]);
    left.set(edge.to, (left.get(edge.to) ?? 0) + 1);
  }
  const total = new Map<string, number>();
  const from = new Map<string, string>();
  const ready = [...left].filter(([, count]) => !count).map(([name]) => name);
  while (ready.length) {
    const name = ready.pop()!;
    const sum = (total.get(name) ?? 0) + took(jobs[name]!) + 1;
    total.set(name, sum);
    for (const each of next.get(name) ?? []) {
      if (sum > (total.get(each) ?? 0)) {
        total.set(each, sum);
        from.set(each, name);
      }
      left.set(each, left.get(each)! - 1);
      if (!left.get(each)) ready.push(each);
    }
  }
  const last = [...total].sort((a, b) => b[1] - a[1])[0]?.[0];
  const path = new Map<string, string>();
  for (let at = last; at !== undefined && from.has(at); at = from.get(at)) path.set(from.get(at)!, at);
  return path;
}

/** Counts by state, in the order in which a bar shows them. */
export function states(jobs: JobSummary[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const job of jobs) counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
  const order = ["completed", "running", "retrying", "scheduled", "delayed", "pending", "cancelled", "failed", "dead_letter"];
  return order.filter((state) => counts.has(state)).map((state) => [state, counts.get(state)!]);
}
