// What took the time of a flow: a bar for each node, from its first start to its last end.

import type { GraphNode } from "./graph";
import { titleOf } from "./flow-words";

export type WaterfallBar = { id: string; title: string; state: string; from: number; to: number };
export type Waterfall = { bars: WaterfallBar[]; ticks: { at: number; seconds: number }[]; hidden: number };

const BARS_MAX = 30;
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];
const TICKS_MAX = 6;

/** Bars and ticks as shares of the whole time, the first start first; what has not begun has no bar. */
export function waterfall(nodes: GraphNode[], span: { from: number; to: number }): Waterfall {
  const length = Math.max(span.to - span.from, 1);
  const share = (at: number) => Math.min(1, Math.max(0, (at - span.from) / length));
  const bars = nodes.flatMap((node) => {
    const started = node.jobs.filter((job) => job.started_at);
    if (!started.length) return [];
    const first = Math.min(...started.map((job) => Date.parse(job.started_at!)));
    const ends = started.map((job) => (job.completed_at ? Date.parse(job.completed_at) : span.to));
    return [{ id: node.id, title: titleOf(node), state: node.state, from: share(first), to: share(Math.max(...ends)) }];
  }).sort((a, b) => a.from - b.from || a.to - b.to);
  return { bars: bars.slice(0, BARS_MAX), ticks: ticks(length / 1000), hidden: Math.max(0, bars.length - BARS_MAX) };
}

function ticks(seconds: number): { at: number; seconds: number }[] {
  const step = STEPS.find((each) => seconds / each <= TICKS_MAX) ?? Math.ceil(seconds / TICKS_MAX / 86_400) * 86_400;
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, index) => ({ at: (index * step) / seconds, seconds: index * step }));
}
