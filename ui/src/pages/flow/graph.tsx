// The graph, left to right. Dagre is loaded when the first graph is shown; it pans inside its panel.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FlowEdge, FlowView } from "../../api/types";
import { to } from "../../api/root";
import { Loading } from "../../parts/basics";
import { between, duration, stateName } from "../../pure/format";
import { type Graph, type GraphNode, graphOf } from "../../pure/graph";
import { now } from "../../state/clock";
import { go } from "../../state/route";

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

export function FlowGraph({ flow, edges, chosen, onChoose }: { flow: FlowView; edges: FlowEdge[]; chosen: string | null; onChoose: (node: GraphNode) => void }) {
  const graph = graphOf(flow.jobs, edges);
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
          {graph.edges.map((edge) => <path key={`${edge.from}\n${edge.to}`} class={`edge ${edge.isDone ? "done" : "wait"} ${edge.isCritical ? "crit" : ""}`} d={lineOf(placed.lines.get(`${edge.from}\n${edge.to}`) ?? [])} />)}
          {graph.nodes.map((node) => <NodeBox key={node.id} node={node} at={placed.nodes.get(node.id)} isChosen={node.id === chosen} onChoose={onChoose} />)}
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

function NodeBox({ node, at, isChosen, onChoose }: { node: GraphNode; at: { x: number; y: number } | undefined; isChosen: boolean; onChoose: (node: GraphNode) => void }) {
  if (!at) return null;
  const [x, y] = [at.x - WIDTH / 2, at.y - HEIGHT / 2];
  const many = node.names.length;
  const job = node.jobs[0]!;
  const done = node.jobs.filter((each) => each.state === "completed").length;
  const time = job.started_at ? duration(between(job.started_at, job.completed_at ?? now.value)) : stateName(node.state);
  const title = cut(many > 1 ? `${node.type} × ${many}` : node.names[0]!, 20);
  const note = many > 1 ? `${done} of ${many} done` : time;
  return (
    <a class={`node s-${node.state} ${isChosen ? "sel" : ""}`} href={to(`jobs/${job.id}`)} aria-label={`${title} ${cut(note, 22)}, ${node.type}, ${stateName(node.state)}`}
      onClick={(event) => { event.preventDefault(); event.stopPropagation(); onChoose(node); }} onDblClick={() => go(`jobs/${job.id}`)}>
      {many > 1 && <rect class="box" x={x + 5} y={y + 5} width={WIDTH} height={HEIGHT} rx="6" />}
      <rect class="box" x={x} y={y} width={WIDTH} height={HEIGHT} rx="6" />
      <use class="gs" href={`#g-${node.state}`} x={x + 10} y={y + 14} width="16" height="16" />
      <text x={x + 34} y={y + 19}>{title} </text>
      <text class="q" x={x + 34} y={y + 34}>{cut(note, 22)}</text>
    </a>
  );
}
