// Refused writes: which attempt tried each, and whose it was.

import type { Attempt, Refusal } from "../api/types";

/** The place of the attempt that tried to write; -1 if none can have. */
export function laneOf(refusal: Refusal, attempts: Attempt[]): number {
  if (refusal.fence_held !== null) return attempts.findIndex((attempt) => attempt.lease_version === refusal.fence_held);
  // The store was given a token alone. A lease that went stale is of an attempt that was lost.
  const at = Date.parse(refusal.at);
  const isLost = (attempt: Attempt) => attempt.failure?.category === "system" && Date.parse(attempt.ended_at ?? "") <= at;
  return attempts.map(isLost).lastIndexOf(true);
}

/** The worker that tried to write, as far as it is known. */
export function writerOf(refusal: Refusal, attempts: Attempt[]): string {
  return refusal.worker ?? attempts[laneOf(refusal, attempts)]?.worker ?? "a worker";
}
