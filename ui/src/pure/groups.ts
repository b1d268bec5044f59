// Dead letters by what is common to them: type, class of the error, innermost own frame.

import type { DeadLetter } from "../api/types";
import type { DeadGroup } from "../api/planned";
import { ownFrame, shortPath } from "./trace";

const HOUR = 3_600_000;
const HOURS = 24;
const SAMPLES = 5;

export function frameText(letter: DeadLetter): string | null {
  const frame = ownFrame(letter.failure.traceback);
  return frame && `${shortPath(frame.file)}:${frame.line}`;
}

const keyOf = (letter: DeadLetter) => JSON.stringify([letter.type, letter.failure.exception ?? letter.failure.category, frameText(letter)]);

/** Group dead letters, newest first, the way the server does where it can. */
export function grouped(letters: DeadLetter[], now: number): DeadGroup[] {
  const groups = new Map<string, DeadLetter[]>();
  for (const letter of letters) {
    const key = keyOf(letter);
    groups.set(key, [...(groups.get(key) ?? []), letter]);
  }
  return [...groups].map(([id, members]) => groupOf(id, members, now)).sort((a, b) => b.count - a.count);
}

function groupOf(id: string, members: DeadLetter[], now: number): DeadGroup {
  const newest = members[0]!;
  const times = members.map((letter) => letter.completed_at).sort();
  const queues: Record<string, number> = {};
  for (const letter of members) queues[letter.queue] = (queues[letter.queue] ?? 0) + 1;
  return {
    id, queues, type: newest.type, exception: newest.failure.exception ?? null, frame: frameText(newest), message: newest.failure.message,
    count: members.length, first_at: times[0]!, last_at: times.at(-1)!, trend: trend(times, now),
    sample: members.slice(0, SAMPLES).map((letter) => letter.job_id),
  };
}

/** How many in each of the last 24 hours, oldest first. */
export function trend(times: string[], now: number): number[] {
  const bars = Array<number>(HOURS).fill(0);
  for (const at of times) {
    const back = Math.floor((now - Date.parse(at)) / HOUR);
    if (back >= 0 && back < HOURS) bars[HOURS - 1 - back]! += 1;
  }
  return bars;
}

/** Whether a dead letter is of a group, however the server writes its frame. */
export function isOf(letter: DeadLetter, group: DeadGroup): boolean {
  if (letter.type !== group.type || (letter.failure.exception ?? null) !== group.exception) return false;
  const frame = ownFrame(letter.failure.traceback);
  if (group.frame === null || frame === null) return group.frame === null || group.frame === undefined;
  return group.frame.includes(`${frame.file.split(/[\\/]/).pop()}:${frame.line}`);
}

/** What the letters have in common: the values of a field, the most common first. */
export function common(letters: DeadLetter[], read: (letter: DeadLetter) => string): { value: string; share: number; values: number } {
  const counts = new Map<string, number>();
  for (const letter of letters) counts.set(read(letter), (counts.get(read(letter)) ?? 0) + 1);
  const [value, most] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return { value, share: letters.length ? most / letters.length : 0, values: counts.size };
}
