// What needs somebody, from what every server can say; one with a route for it says more.

import type { Item, QueueView, WorkerInfo } from "../api/types";
import { between, count, duration, many } from "./format";

const SILENT = 20;
const serves = (worker: WorkerInfo, queue: string, type: string) =>
  (worker.types as string[]).includes(type) && (worker.queues === null || Object.hasOwn(worker.queues as object, queue));

export function attention(queues: QueueView[], workers: WorkerInfo[], now: number): Item[] {
  return [...queues.flatMap((queue) => unserved(queue, workers)), ...workers.flatMap((worker) => silent(worker, now)), ...queues.flatMap(paused)];
}

function unserved(queue: QueueView, workers: WorkerInfo[]): Item[] {
  if (queue.is_paused) return [];
  const types = Object.entries(queue.claimable ?? {}).filter(([type, waiting]) => waiting && !workers.some((worker) => serves(worker, queue.name, type)));
  const waiting = types.reduce((sum, [, each]) => sum + each, 0);
  if (!waiting) return [];
  const names = types.map(([type]) => type).slice(0, 3).join(", ");
  const verb = waiting === 1 ? "waits" : "wait";
  return [{ code: "no_worker", level: "now", since: queue.oldest_at ?? null, count: waiting, target: { kind: "queue", name: queue.name }, text: `${many(waiting, "job")} ${verb}, and no live worker runs ${names} on it` }];
}

function silent(worker: WorkerInfo, now: number): Item[] {
  const silence = worker.seen_at ? between(worker.seen_at, now) : 0;
  if (silence < SILENT) return [];
  return [{ code: "worker_silent", level: "soon", since: worker.seen_at ?? null, count: worker.running ?? 0, target: { kind: "worker", name: worker.id }, text: `it was last heard from ${duration(silence)} ago, with ${many(worker.running ?? 0, "job")}` }];
}

function paused(queue: QueueView): Item[] {
  if (!queue.is_paused) return [];
  return [{ code: "paused", level: "soon", since: queue.oldest_at ?? null, count: queue.counts?.scheduled ?? 0, target: { kind: "queue", name: queue.name }, text: `${count(queue.counts?.scheduled ?? 0)} jobs wait, in order; lifetimes go on` }];
}

const TITLES: Record<string, (name: string) => string> = {
  dead_letters_rising: (name) => `${name}: dead letters rise`,
  no_worker: (name) => `Queue ${name} has no worker`,
  leases_expired: () => "Leases have ended and are not recovered",
  wait_high: (name) => `Jobs of ${name} wait far longer than usual`,
  worker_silent: (name) => `Worker ${name} is silent`,
  paused: (name) => `Queue ${name} is paused`,
  doctor: () => "The doctor has a warning",
};

export function titleOf(item: Item): string {
  // A group has no name that says anything; the text has the type.
  const type = /type '([^']+)'/.exec(item.text)?.[1];
  if (item.code === "dead_letters_rising" && item.target.kind === "group") return `${type ? `${type}: ` : ""}${many(item.count, "dead letter")} within an hour`;
  if (item.code === "paused" && item.target.kind === "type") return `Type ${item.target.name} is paused`;
  return TITLES[item.code]?.(item.target.name) ?? item.text;
}

/** The state whose colour and shape an item has. */
export function stateOf(item: Item): string {
  if (item.level === "now") return item.code.startsWith("dead") ? "dead_letter" : "failed";
  return item.code === "paused" || item.code === "doctor" ? "plain" : "retrying";
}
