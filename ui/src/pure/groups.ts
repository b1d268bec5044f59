// Dead letters by what is common to them: type, class of the error, innermost own frame.

import type { DeadLetter, Group } from "../api/types";
import { ownFrame } from "./trace";

/** Whether a dead letter is of a group, however the server writes its frame. */
export function isOf(letter: DeadLetter, group: Group): boolean {
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

/** Rising groups first, then the large ones; of equals, as the server lists them. */
export function worstFirst(groups: Group[]): Group[] {
  return [...groups].sort((a, b) => Number(b.is_rising) - Number(a.is_rising) || b.count - a.count);
}
