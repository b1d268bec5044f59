// The weight of a queue: only workers know it, and they may differ.

import type { WorkerInfo } from "../api/types";

/** "3", "1 to 3" where workers differ, "–" where none serves the queue. */
export function weightOf(queue: string, workers: WorkerInfo[]): string {
  const weights = workers.flatMap((worker) => (worker.queues === null ? [1] : (worker.queues[queue] ?? [])));
  if (!weights.length) return "–";
  const [low, high] = [Math.min(...weights), Math.max(...weights)];
  return low === high ? String(low) : `${low} to ${high}`;
}
