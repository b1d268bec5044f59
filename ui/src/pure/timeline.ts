// A job's life as lanes: waiting above, one lane a fence below. Pure: times in, places out.

import type { Attempt, JobSummary, Refusal } from "../api/types";
import { ENDED } from "./format";
import { laneOf } from "./refusals";

export type Wait = { from: number; to: number; state: string };
export type Lane = {
  /** Counts the leases of the job from 1: what the page calls its fence. */
  fence: number;
  attempt: Attempt;
  y: number;
  from: number;
  to: number;
  /** How it ended, as a state; null while it runs. */
  end: string | null;
  refusals: { x: number; refusal: Refusal }[];
};
export type Mark = { x: number; at: number; isFine: boolean };
export type Timeline = {
  waits: Wait[];
  lanes: Lane[];
  marks: Mark[];
  /** Where the present is; null once the job has ended. */
  now: number | null;
  /** The end of a job that has ended. */
  last: { x: number; state: string } | null;
  /** Earlier leases that are not drawn. */
  hidden: number;
  /** True if short spans are drawn wider than they were. */
  isWidened: boolean;
  height: number;
};

export const LANE_HEIGHT = 48;
export const TOP = 28;
const LANES_MAX = 8;
const WIDTH_MIN = 26;

const ENDS: Record<string, string> = {
  succeeded: "completed", failed: "failed", released: "scheduled", snoozed: "delayed",
  unreadable: "retrying", cancelled: "cancelled",
};

/** A scale from times to places on which no span is too narrow to see. */
export function scale(times: number[], left: number, right: number): { place: (at: number) => number; isWidened: boolean } {
  const points = [...new Set(times)].sort((a, b) => a - b);
  const spans = points.slice(1).map((at, index) => at - points[index]!);
  const total = spans.reduce((sum, span) => sum + span, 0);
  if (!total) return { place: () => left, isWidened: false };
  const room = right - left;
  const least = Math.min(WIDTH_MIN, room / spans.length);
  const isWidened = spans.some((span) => (span / total) * room < least);
  const free = isWidened ? room - least * spans.length : room;
  const edges = [left];
  for (const span of spans) edges.push(edges.at(-1)! + (isWidened ? least : 0) + (span / total) * free);
  function place(at: number): number {
    if (at <= points[0]!) return left;
    const index = points.findIndex((point) => at <= point);
    if (index < 0) return right;
    const share = (at - points[index - 1]!) / (points[index]! - points[index - 1]!);
    return edges[index - 1]! + share * (edges[index]! - edges[index - 1]!);
  }
  return { place, isWidened };
}

type Input = { job: JobSummary; attempts: Attempt[]; refusals: Refusal[]; now: number; left: number; right: number };

export function timeline({ job, attempts, refusals, now, left, right }: Input): Timeline {
  const hidden = Math.max(0, attempts.length - LANES_MAX);
  const drawn = attempts.slice(hidden);
  const isOver = ENDED.has(job.state);
  const at = (text: string | null | undefined) => Date.parse(text ?? "");
  const start = hidden ? at(drawn[0]!.started_at) : at(job.created_at);
  const end = Math.max(start + 1, isOver && job.completed_at ? at(job.completed_at) : now);
  const refusedAt = refusals.map((each) => Math.min(at(each.at), now));
  const times = drawn.flatMap((each) => [at(each.started_at), each.ended_at ? at(each.ended_at) : end]);
  const latest = Math.max(end, ...refusedAt);
  const { place, isWidened } = scale([start, ...times, end, ...refusedAt].map((each) => Math.max(start, Math.min(each, latest))), left, right);
  const lanes = drawn.map((attempt, index): Lane => ({
    fence: hidden + index + 1,
    attempt,
    y: TOP + LANE_HEIGHT * (index + 1),
    from: place(at(attempt.started_at)),
    to: place(attempt.ended_at ? at(attempt.ended_at) : end),
    end: attempt.ended_at ? (ENDS[attempt.outcome] ?? attempt.outcome) : null,
    refusals: refusals.filter((each) => laneOf(each, attempts) === hidden + index)
      .map((refusal) => ({ x: place(at(refusal.at)), refusal })),
  }));
  return {
    lanes, hidden, isWidened,
    waits: waitsOf(job, drawn, place, start, end, hidden > 0),
    marks: marksOf(place, start, latest, left, right),
    now: isOver ? null : place(end),
    last: isOver ? { x: place(end), state: job.state } : null,
    height: TOP + LANE_HEIGHT * (lanes.length + 1),
  };
}

/** The spans between attempts, by what the job waited for. */
function waitsOf(job: JobSummary, attempts: Attempt[], place: (at: number) => number, start: number, end: number, isCut: boolean): Wait[] {
  const waits: Wait[] = [];
  let from = isCut ? null : start;
  let state = Date.parse(job.run_at) > start + 1000 && !attempts.length ? "delayed" : "scheduled";
  for (const attempt of attempts) {
    if (from !== null) waits.push({ from: place(from), to: place(Date.parse(attempt.started_at)), state });
    from = attempt.ended_at ? Date.parse(attempt.ended_at) : null;
    state = attempt.outcome === "failed" ? "retrying" : (ENDS[attempt.outcome] ?? "scheduled");
  }
  const isDone = attempts.at(-1)?.outcome === "succeeded";
  if (from !== null && !isDone && end > from) {
    const isOver = ENDED.has(job.state);
    waits.push({ from: place(from), to: place(end), state: isOver ? state : job.state });
  }
  return waits.filter((wait) => wait.to - wait.from > 0.5 && wait.state !== "completed");
}

const STEPS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800,
].map((seconds) => seconds * 1000);

/** Round times on the axis, none too close to another. */
function marksOf(place: (at: number) => number, start: number, end: number, left: number, right: number): Mark[] {
  const step = STEPS.find((each) => (end - start) / each <= 6) ?? STEPS.at(-1)!;
  const marks: Mark[] = [];
  for (let at = Math.ceil(start / step) * step; at <= end && marks.length < 20; at += step) {
    const x = place(at);
    if (x >= left && x <= right - 48 && x - (marks.at(-1)?.x ?? -100) > 64) marks.push({ x, at, isFine: step < 1000 });
  }
  return marks;
}
