// Lists of flows: pages joined, and their counts in the order of a job's life.

import type { FlowPage, FlowSummary } from "../api/types";

const ORDER = ["pending", "scheduled", "delayed", "retrying", "running", "completed", "failed", "dead_letter", "cancelled"];

/** The flows of several pages, each once: a page read again may have moved on. */
export function flowRows(pages: FlowPage[]): FlowSummary[] {
  const found = new Map<string, FlowSummary>();
  for (const flow of pages.flatMap((page) => page.flows)) if (!found.has(flow.id)) found.set(flow.id, flow);
  return [...found.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
}

export function stateCounts(counts: Record<string, number>): [string, number][] {
  return ORDER.filter((state) => counts[state]).map((state) => [state, counts[state]!]);
}
