// What is to be said of a worker beside its numbers.

import type { WorkerInfo } from "../api/types";
import { many } from "./format";

/** The version that most workers run; null if all run the same, or none says. */
export function usualVersion(workers: WorkerInfo[]): string | null {
  const counts = new Map<string, number>();
  for (const { version } of workers) if (version) counts.set(version, (counts.get(version) ?? 0) + 1);
  if (counts.size < 2) return null;
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))[0]![0];
}

export function workerNotes(worker: WorkerInfo, known: { late: number; usual: string | null; isLagging: boolean }): string[] {
  const notes = [];
  if (known.late) notes.push(`${many(known.late, "lease")} ended and not recovered`);
  if (known.isLagging) notes.push("its event loop lags");
  if (known.usual !== null && worker.version && worker.version !== known.usual) notes.push("not the version that most run");
  if (worker.is_leader) notes.push("leader");
  return notes;
}
