// The timeline: branching down at a claim, back up at a failure, dotted into what may come.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Attempt, Change, JobView, Refusal } from "../../api/types";
import { Choice, Glyph, Icon, Panel } from "../../parts/basics";
import { JsonTree } from "../../parts/json-tree";
import { between, clock, duration, exact, fineClock, stateName } from "../../pure/format";
import type { Json } from "../../pure/json";
import { writerOf } from "../../pure/refusals";
import { LANE_HEIGHT, type Lane, timeline, TOP, type Wait } from "../../pure/timeline";
import { className } from "../../pure/trace";
import { now } from "../../state/clock";

const VIEWS = ["Lanes", "Events", "JSON"] as const;
type View = (typeof VIEWS)[number];
/** Lanes need more room than a phone has. */
const narrow = matchMedia("(max-width: 720px)");
const LEFT = 144;
const ROOM_RIGHT = 112;

export type Beat = { at: number; version: number };
type Props = { job: JobView; attempts: Attempt[]; changes: Change[]; refusals: Refusal[]; beats: Beat[]; tree: Json };

export function TimelinePanel(props: Props) {
  const [isNarrow] = useState(() => narrow.matches);
  const [view, setView] = useState<View>(isNarrow ? "Events" : "Lanes");
  return (
    <Panel title="Timeline" class="o2" tools={<Choice label="Timeline as" options={isNarrow ? VIEWS.slice(1) : VIEWS} value={view} onChange={setView} />}>
      {view === "Lanes" && <div class="lanes"><Lanes {...props} /></div>}
      {view === "JSON" ? <div class="body"><JsonTree tree={props.tree} /></div> : (
        <div class={view === "Events" ? "" : "events"}><Events changes={props.changes} refusals={props.refusals} attempts={props.attempts} /></div>
      )}
    </Panel>
  );
}

function useWidth(): [preact.RefObject<HTMLDivElement>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => entry && setWidth(Math.max(360, Math.round(entry.contentRect.width))));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

function Lanes({ job, attempts, refusals, beats }: Props) {
  const [box, width] = useWidth();
  const right = width - ROOM_RIGHT;
  const drawn = timeline({ job, attempts, refusals, now: now.value, left: LEFT, right });
  const words = attempts.length ? `${attempts.length} attempts, ${stateName(job.state)}` : `no attempt yet, ${stateName(job.state)}`;
  return (
    <div ref={box}>
      <svg viewBox={`0 0 ${width} ${drawn.height}`} width={width} height={drawn.height} role="img" aria-label={`Timeline: ${words}; the list of events has the same`}>
        {drawn.marks.map((mark) => (
          <g key={mark.at}>
            <line class="gl" x1={mark.x} x2={mark.x} y1={12} y2={drawn.height - 24} />
            <text class="q" x={mark.x} y={drawn.height - 8} text-anchor="middle">{mark.isFine ? fineClock(mark.at) : clock(mark.at)}</text>
          </g>
        ))}
        <text class="q" x={16} y={TOP + 4}>waiting</text>
        {drawn.waits.map((wait, index) => <Waiting key={index} wait={wait} job={job} isLast={index === drawn.waits.length - 1} />)}
        {drawn.lanes.map((lane, index) => (
          <LaneLine key={lane.fence} lane={lane} right={right} beats={beats} next={drawn.lanes[index + 1]} job={job} hasEnd={drawn.last !== null} />
        ))}
        {drawn.now !== null && <Now x={drawn.now} height={drawn.height} job={job} lanes={drawn.lanes} />}
        {drawn.last && !drawn.lanes.some((lane) => lane.end && Math.abs(lane.to - drawn.last!.x) < 4) && (
          <GlyphAt state={drawn.last.state} x={drawn.last.x} y={TOP} />
        )}
      </svg>
      {(drawn.hidden > 0 || drawn.isWidened) && (
        <p class="q sm note">
          {drawn.hidden > 0 && `${drawn.hidden} earlier attempts are listed below. `}
          {drawn.isWidened && "To scale, but for spans too short to see."}
        </p>
      )}
    </div>
  );
}

function GlyphAt({ state, x, y }: { state: string; x: number; y: number }) {
  return (
    <g class={`s-${state}`}>
      <circle class="bg" cx={x} cy={y} r={9} />
      <use class="gs" href={`#g-${state}`} x={x - 8} y={y - 8} width={16} height={16} />
    </g>
  );
}

function Waiting({ wait, job, isLast }: { wait: Wait; job: JobView; isLast: boolean }) {
  const width = wait.to - wait.from;
  const isNext = isLast && wait.state === job.state && ["retrying", "delayed"].includes(job.state);
  const left = between(job.run_at, now.value);
  const text = isNext && left < 0 ? `next in ${duration(Math.ceil(-left))}` : stateName(wait.state).toLowerCase();
  return (
    <g class={`s-${wait.state}`}>
      <line class="seg0" x1={wait.from + 2} x2={Math.max(wait.from + 2, wait.to - 2)} y1={TOP} y2={TOP} />
      {width > 64 && <text class="c" x={(wait.from + wait.to) / 2} y={TOP - 12} text-anchor="middle">{text}</text>}
    </g>
  );
}

const curve = (x1: number, y1: number, x2: number, y2: number) => `M${x1} ${y1}C${x1 + 10} ${y1} ${x2 - 10} ${y2} ${x2} ${y2}`;

function LaneLine({ lane, next, beats, right, job, hasEnd }: {
  lane: Lane; next?: Lane; beats: Beat[]; right: number; job: JobView; hasEnd: boolean;
}) {
  const { attempt } = lane;
  const isLost = attempt.failure?.category === "system";
  const state = isLost ? "retrying" : "running";
  const name = className(attempt.failure?.exception) || attempt.failure?.category || "";
  const took = attempt.ended_at ? duration(between(attempt.started_at, attempt.ended_at)) : "";
  const ends = lane.end && (isLost && next ? "retrying" : !next && hasEnd ? job.state : lane.end);
  const isRoom = lane.to + 170 < right + ROOM_RIGHT;
  return (
    <g>
      <text class="b" x={16} y={lane.y - 2}>Fence {lane.fence}</text>
      <text class="q n4" x={16} y={lane.y + 13}>{cut(attempt.worker, 20)}<title>{attempt.worker}</title></text>
      <path class="thin s-running" d={curve(lane.from - 12, TOP, lane.from, lane.y)} />
      {next && lane.end && <path class={`thin s-${lane.end === "failed" ? "retrying" : lane.end}`} d={curve(lane.to, lane.y, lane.to + 12, TOP)} />}
      <line class={`seg0 s-${state} ${isLost ? "dots" : ""}`} x1={lane.from} x2={Math.max(lane.from + 1, lane.to)} y1={lane.y} y2={lane.y} />
      {beats.filter((beat) => beat.version === attempt.lease_version).map((beat) => <Tick key={beat.at} beat={beat} lane={lane} />)}
      {ends && <GlyphAt state={ends} x={lane.to} y={lane.y} />}
      {lane.end && lane.end !== "completed" && (
        <text class={`c s-${isLost ? "retrying" : lane.end}`} x={isRoom ? lane.to + 14 : lane.to - 14} y={lane.y - 8} text-anchor={isRoom ? "start" : "end"}>
          {cut(isLost ? `lost, lease ended ${clock(attempt.ended_at!)}` : name ? `${name} after ${took}` : `${attempt.outcome} after ${took}`, 40)}
        </text>
      )}
      {lane.end === "completed" && <text class="c s-completed" x={lane.to - 14} y={lane.y - 10} text-anchor="end">{took}</text>}
      {lane.refusals.map(({ x, refusal }) => <RefusedAt key={refusal.at} x={x} lane={lane} refusal={refusal} />)}
    </g>
  );
}

/** A heartbeat that was seen while the page was open. */
function Tick({ beat, lane }: { beat: Beat; lane: Lane }) {
  const from = Date.parse(lane.attempt.started_at);
  const end = lane.attempt.ended_at ? Date.parse(lane.attempt.ended_at) : now.value;
  if (end <= from || beat.at > end) return null;
  const x = lane.from + ((beat.at - from) / (end - from)) * (lane.to - lane.from);
  return <line class="tick s-running" x1={x} x2={x} y1={lane.y - 6} y2={lane.y + 6} />;
}

function RefusedAt({ x, lane, refusal }: { x: number; lane: Lane; refusal: Refusal }) {
  return (
    <g class="s-refused">
      <line class="thin dash" x1={lane.to + 10} x2={x - 10} y1={lane.y} y2={lane.y} />
      <circle class="bg" cx={x} cy={lane.y} r={9} />
      <use class="gs" href="#g-refused" x={x - 8} y={lane.y - 8} width={16} height={16} />
      <text class="c" x={x} y={lane.y + 20} text-anchor="middle">{refusal.operation} refused</text>
    </g>
  );
}

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
const FUTURES = ["completed", "retrying", "dead_letter"];
const FUTURE_NAMES: Record<string, string> = { completed: "Completed", retrying: "Retry", dead_letter: "Dead letter" };

function Now({ x, height, job, lanes }: { x: number; height: number; job: JobView; lanes: Lane[] }) {
  const lane = lanes.at(-1);
  const isRunning = job.state === "running" && lane !== undefined;
  const y = isRunning ? lane.y : TOP;
  const may = FUTURES.filter((state) => (state === "retrying" ? job.attempt < job.max_attempts : true));
  const room = Math.min(20, LANE_HEIGHT / 2);
  return (
    <g>
      <line class="now" x1={x} x2={x} y1={8} y2={height - 24} />
      <text class="b" x={x} y={height - 8} text-anchor="middle">now</text>
      <GlyphAt state={job.state} x={x} y={y} />
      {isRunning && may.map((state, index) => {
        const target = y + (index - (may.length - 1) / 2) * room;
        return (
          <g class={`s-${state}`} key={state}>
            <path class="thin dash" d={curve(x + 9, y, x + 26, target)} />
            <use class="gs" href={`#g-${state}`} x={x + 28} y={target - 6} width={12} height={12} />
            <text class="n4" x={x + 44} y={target + 4}>{FUTURE_NAMES[state]}</text>
          </g>
        );
      })}
    </g>
  );
}

function Events({ changes, refusals, attempts }: Pick<Props, "changes" | "refusals" | "attempts">) {
  const all = [
    ...changes.map((change) => ({ at: change.at, state: change.state as string, text: change.reason, isBad: false })),
    ...refusals.map((each) => ({ at: each.at, state: "refused", text: refusalWords(each, attempts), isBad: true })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return (
    <ol>
      {all.map((event, index) => (
        <li class={`ev ${event.isBad ? "bad" : ""}`} key={index}>
          {event.isBad ? <Icon name="refused" state="refused" /> : <Glyph state={event.state} />}
          <span><b>{event.isBad ? "Refused" : stateName(event.state)}</b> {event.text}</span>
          <time dateTime={event.at} title={exact(event.at)}>{clock(event.at)}</time>
        </li>
      ))}
    </ol>
  );
}

function refusalWords(each: Refusal, attempts: Attempt[]): string {
  return `${each.operation} of ${writerOf(each, attempts)}, which held a fence that is over: nothing changed.`;
}
