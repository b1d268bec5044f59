// Replays of dead letters in words, and as a request.

import type { ReplayView } from "../api/types";
import { count } from "./format";
import { parseExact } from "./json";

const STATES: Record<ReplayView["state"], string> = {
  running: "running", held: "held", done: "done", stopped: "stopped by hand", stopped_by_rule: "stopped by its rule",
};
const REASONS: Record<string, string> = {
  duplicate: "another job holds the key", dependency: "waits for a dead letter", sealed: "cannot be decrypted",
  gone: "gone meanwhile", payload: "payload cannot be changed", too_large: "payload too large",
};

/** Where it stands, and how fast it goes. */
export function replayWords(replay: ReplayView): string {
  const rule = replay.stop_above === null ? "" : `, stops above ${Math.round(replay.stop_above * 100)} % failed`;
  return `${STATES[replay.state]}, ${replay.rate} a second${rule}`;
}

/** How far it is. */
export function progressWords(replay: ReplayView): string {
  const total = `${count(replay.total)}${replay.is_total_known ? "" : " or more"}`;
  const skipped = Object.entries(replay.skipped).map(([reason, times]) => `${count(times)} skipped: ${REASONS[reason] ?? reason}`);
  const parts = [`${count(replay.replayed)} of ${total} replayed`, ...skipped, `${count(replay.failed)} failed again`, `${count(replay.completed)} completed`];
  if (replay.open) parts.push(`${count(replay.open)} open`);
  if (replay.left) parts.push(`${count(replay.left)} left`);
  return parts.join("; ");
}

export function isObject(text: string): boolean {
  try {
    parseExact(text);
    return text.trim().startsWith("{");
  } catch {
    return false;
  }
}

/** The body of a request, with the patch as it was written: its numbers keep all their digits. */
export function replayBody(wanted: Record<string, unknown>, patch: string): string {
  const text = JSON.stringify(wanted);
  return patch.trim() === "" ? text : `${text.slice(0, -1)},"patch":${patch.trim()}}`;
}
