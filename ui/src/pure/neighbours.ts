// What stands directly before and after a node of a flow, as columns of a small drawing.

import type { FlowEdge } from "../api/types";

const SHOWN = 3;

export type Column = { names: string[]; hidden: number; isOwn: boolean };

/** What *name* waited for, itself, and what waits for it; of many the first three. */
export function neighbours(edges: FlowEdge[], name: string): Column[] {
  const before = new Set(edges.filter((edge) => edge.to === name).map((edge) => edge.from));
  const after = new Set(edges.filter((edge) => edge.from === name).map((edge) => edge.to));
  return [column([...before]), { names: [name], hidden: 0, isOwn: true }, column([...after])];
}

function column(names: string[]): Column {
  return { names: names.slice(0, SHOWN), hidden: Math.max(0, names.length - SHOWN), isOwn: false };
}
