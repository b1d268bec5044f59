// The graph, left to right. Dagre is loaded when the first graph is shown; it pans inside its panel.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { to } from "../../api/root";
import { Loading } from "../../parts/basics";
import { noteOf, titleOf } from "../../pure/flow-words";
import { count, stateName } from "../../pure/format";
import type { Graph, GraphNode } from "../../pure/graph";
import { now } from "../../state/clock";
import { go } from "../../state/route";
import type { Parts } from "./index";

const WIDTH = 168;
const HEIGHT = 44;
type Placed = { width: number; height: number; nodes: Map<string, { x: number; y: number }>; lines: Map<string, { x: number; y: number }[]> };

async function place(graph: Graph): Promise<Placed> {
  const { default: dagre } = await import("@dagrejs/dagre");
  const made = new dagre.graphlib.Graph().setGraph({ rankdir: "LR", nodesep: 16, ranksep: 56, marginx: 16, marginy: 16 }).setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) made.setNode(node.id, { width: WIDTH, height: HEIGHT });
  for (const edge of graph.edges) made.setEdge(edge.from, edge.to);
  dagre.layout(made);
  const size = made.graph();
  return {
    width: size.width ?? 0, height: size.height ?? 0,
    nodes: new Map(graph.nodes.map((node) => [node.id, made.node(node.id)])),
    lines: new Map(graph.edges.map((edge) => {
      const [from, to] = [made.node(edge.from), made.node(edge.to)];
      const between = made.edge(edge.from, edge.to).points.slice(1, -1);
      // From the middle of a side to the middle of a side; dagre aims at centres and ends in corners.
      return [`${edge.from}\n${edge.to}`, [{ x: from.x + WIDTH / 2, y: from.y }, ...(between.length > 1 ? between : []), { x: to.x - WIDTH / 2, y: to.y }]];
    })),
  };
}

export function GraphLegend() {
  return (
    <div class="legend no-phone">
      <span><i class="solid crit" />critical path</span><span class="s-plain"><i class="dash" />not yet</span><span class="s-failed"><i class="dash" />ended by what it waited for</span>
    </div>
  );
}

export function FlowGraph({ graph, jobs, edges, chosen, onChoose }: Parts & { graph: Graph; chosen: string | null; onChoose: (node: GraphNode) => void }) {
  const shape = useMemo(() => JSON.stringify([graph.nodes.map((node) => node.id), graph.edges.map((edge) => [edge.from, edge.to])]), [graph]);
  const [placed, setPlaced] = useState<Placed | null>(null);
  const [zoom, setZoom] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let isGone = false;
    void place(graph).then((found) => !isGone && setPlaced(found));
    return () => void (isGone = true);
  }, [shape]);
  if (!placed) return <Loading rows={5} />;
  const fit = Math.min(1, (box.current?.clientWidth ?? 800) / placed.width);
  const scale = zoom || Math.max(fit, 0.6);
  return (
    <div class="flowbox">
      <div class="flow" ref={box} tabIndex={0} role="group" aria-label="Graph; drag or use the arrow keys to pan" onPointerDown={(event) => pan(event, box.current!)}>
        <svg class="graph" width={placed.width * scale} height={placed.height * scale} viewBox={`0 0 ${placed.width} ${placed.height}`}>
          {graph.edges.map((edge) => <path key={`${edge.from}\n${edge.to}`} class={`edge ${edge.isBlame ? "no" : edge.isDone ? "done" : "wait"} ${edge.isCritical && !edge.isBlame ? "crit" : ""}`} d={lineOf(placed.lines.get(`${edge.from}\n${edge.to}`) ?? [])} />)}
          {graph.nodes.map((node) => <NodeBox key={node.id} node={node} note={noteOf(node, jobs, edges, now.value)} at={placed.nodes.get(node.id)} isChosen={node.id === chosen} onChoose={onChoose} />)}
        </svg>
      </div>
      <div class="zoom">
        <button type="button" aria-label="Zoom out" onClick={() => setZoom(Math.max(0.2, scale / 1.25))}>−</button>
        <button type="button" aria-label="Zoom in" onClick={() => setZoom(Math.min(3, scale * 1.25))}>+</button>
        <button type="button" onClick={() => setZoom(Math.max(0.2, fit))}>Fit</button>
      </div>
    </div>
  );
}

function lineOf(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (!first || !last) return "";
  let at = first;
  let line = `M${at.x} ${at.y}`;
  for (const point of rest) {
    const middle = (at.x + point.x) / 2;
    line += `C${middle} ${at.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    at = point;
  }
  return line;
}

/** Drag the ground; a node stays a link. */
function pan(event: PointerEvent, box: HTMLElement): void {
  if ((event.target as Element).closest("a") || event.button) return;
  const start = { x: event.clientX + box.scrollLeft, y: event.clientY + box.scrollTop };
  const move = (moved: PointerEvent) => box.scrollTo(start.x - moved.clientX, start.y - moved.clientY);
  const end = () => removeEventListener("pointermove", move);
  addEventListener("pointermove", move);
  addEventListener("pointerup", end, { once: true });
}

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

type BoxProps = { node: GraphNode; note: string; at: { x: number; y: number } | undefined; isChosen: boolean; onChoose: (node: GraphNode) => void };

function NodeBox({ node, note, at, isChosen, onChoose }: BoxProps) {
  if (!at) return null;
  const [x, y] = [at.x - WIDTH / 2, at.y - HEIGHT / 2];
  const isMany = node.names.length > 1;
  const job = node.jobs[0]!;
  const done = node.jobs.filter((each) => each.state === "completed").length / node.jobs.length;
  const title = isMany ? `${cut(node.type, 14)} × ${count(node.names.length)}` : cut(titleOf(node), 20);
  return (
    <a class={`node s-${node.state} ${isChosen ? "sel" : ""}`} href={to(`jobs/${job.id}`)} aria-label={`${title} ${cut(note, 26)}, ${node.type}, ${stateName(node.state)}`}
      onClick={(event) => { event.preventDefault(); event.stopPropagation(); onChoose(node); }} onDblClick={() => go(`jobs/${job.id}`)}>
      {isMany && <rect class="box" x={x + 6} y={y + 6} width={WIDTH} height={HEIGHT} rx="6" />}
      {isMany && <rect class="box" x={x + 3} y={y + 3} width={WIDTH} height={HEIGHT} rx="6" />}
      <rect class="box" x={x} y={y} width={WIDTH} height={HEIGHT} rx="6" />
      <use class="gs" href={`#g-${node.state}`} x={x + 10} y={y + 14} width="16" height="16" />
      <text x={x + 34} y={y + 19}>{title} </text>
      <text class={["running", "failed", "dead_letter", "retrying"].includes(node.state) ? "e" : "q"} x={x + 34} y={y + 34}>{cut(note, 26)}</text>
      {isMany && done > 0 && <rect class="fill s-completed" x={x + 10} y={y + HEIGHT - 4} width={(WIDTH - 20) * done} height="2" />}
    </a>
  );
}
