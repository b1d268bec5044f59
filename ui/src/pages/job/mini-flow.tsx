// The job among its neighbours in the flow: what it waited for, and what waits for it.

import type { FlowView } from "../../api/types";
import { to } from "../../api/root";
import { stateName } from "../../pure/format";
import { neighbours } from "../../pure/neighbours";

const WIDTH = 328;
const NODE_MAX = 132;
const HEIGHT = 28;
const GAP = 12;
const BETWEEN = 28;
const LETTER = 6.4;

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text);

export function MiniFlow({ flow, name }: { flow: FlowView; name: string }) {
  const columns = neighbours(flow.edges ?? [], name).filter((column) => column.names.length);
  const width = Math.min(NODE_MAX, (WIDTH - BETWEEN * (columns.length - 1)) / columns.length);
  const rows = Math.max(...columns.map((column) => column.names.length + (column.hidden ? 1 : 0)));
  const height = rows * (HEIGHT + GAP) - GAP;
  const own = columns.findIndex((column) => column.isOwn);
  const left = (index: number) => index * (width + BETWEEN);
  const top = (count: number, row: number) => (height - count * (HEIGHT + GAP) + GAP) / 2 + row * (HEIGHT + GAP);
  const middle = height / 2;
  return (
    <div class="body mini">
      <svg viewBox={`-2 -2 ${WIDTH + 4} ${height + 4}`} width="100%" role="group" aria-label={`${name} among its neighbours`}>
        {columns.map((column, index) => !column.isOwn && column.names.map((each, row) => {
          const y = top(column.names.length + (column.hidden ? 1 : 0), row) + HEIGHT / 2;
          const isBefore = index < own;
          const [x1, y1, x2, y2] = isBefore ? [left(index) + width, y, left(own), middle] : [left(own) + width, middle, left(index), y];
          const isDone = flow.jobs[isBefore ? each : name]?.state === "completed";
          return <path key={each} class={`edge ${isDone ? "done" : "wait"}`} d={`M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`} />;
        }))}
        {columns.map((column, index) => [
          ...column.names.map((each, row) => (
            <MiniNode key={each} flow={flow} name={each} x={left(index)} y={top(column.names.length + (column.hidden ? 1 : 0), row)} width={width} isOwn={column.isOwn} />
          )),
          column.hidden > 0 && (
            <a key={`more ${index}`} class="node" href={to(`flows/${flow.id}`)}>
              <text class="q" x={left(index) + 8} y={top(column.names.length + 1, column.names.length) + 18}>{`and ${column.hidden} more`}</text>
            </a>
          ),
        ])}
      </svg>
    </div>
  );
}

function MiniNode({ flow, name, x, y, width, isOwn }: { flow: FlowView; name: string; x: number; y: number; width: number; isOwn: boolean }) {
  const job = flow.jobs[name];
  if (!job) return null;
  return (
    <a class={`node s-${job.state} ${isOwn ? "sel" : ""}`} href={to(`jobs/${job.id}`)} aria-label={`${name}, ${stateName(job.state)}`} aria-current={isOwn ? "true" : undefined}>
      <title>{name}</title>
      <rect class="box" x={x} y={y} width={width} height={HEIGHT} rx="4" />
      <use class="gs" href={`#g-${job.state}`} x={x + 8} y={y + 7} width="14" height="14" />
      <text x={x + 28} y={y + 18}>{cut(name, Math.floor((width - 34) / LETTER))}</text>
    </a>
  );
}
