// One stream for the whole page: it says that something changed, and the pages read what they show.
// At most four times a second; not while hidden or paused. Beneath it, pages poll.

import { effect, signal } from "@preact/signals";
import { ApiError, get, isRefused } from "../api/client";
import { me } from "../api/session";
import { to } from "../api/root";
import type { QueueView } from "../api/types";
import { eventReader, type ServerEvent } from "../pure/sse";

const FRAME = 250;
const RETRY_MAX = 10_000;
/** A stream says at least a comment within this time, in milliseconds; else it is dead. */
const SILENCE = 45_000;

export type Link = "connecting" | "live" | "away";

export const link = signal<Link>("connecting");
export const isPaused = signal(false);
/** Counts up whenever jobs ended or queues changed. */
export const changes = signal(0);
/** Jobs that ended since the page was opened: ids, the newest last, bounded. */
export const ended = signal<{ id: string; type: string; state: string }[]>([]);
export const liveQueues = signal<QueueView[] | null>(null);

let last: string | null = null;
let waiting: ServerEvent[] = [];
let frame: ReturnType<typeof setTimeout> | undefined;

function show(): void {
  frame = undefined;
  const jobs = waiting.filter((event) => event.type === "job").map((event) => JSON.parse(event.data));
  const queues = waiting.filter((event) => event.type === "queues").pop();
  waiting = [];
  if (jobs.length) ended.value = [...ended.peek(), ...jobs].slice(-200);
  if (queues) liveQueues.value = JSON.parse(queues.data).queues;
  changes.value += 1;
}

function take(events: ServerEvent[]): void {
  for (const event of events) {
    if (event.id !== null) last = event.id;
    if (event.data) waiting.push(event);
  }
  if (waiting.length > 1000) waiting = waiting.slice(-1000);
  if (waiting.length && frame === undefined) frame = setTimeout(show, FRAME);
}

/** The queues before the stream tells of them. */
async function firstQueues(): Promise<void> {
  const read = await get<{ queues: QueueView[] }>("v1/queues").catch(() => null);
  if (read && liveQueues.peek() === null) liveQueues.value = read.queues;
}

async function follow(stop: AbortController): Promise<void> {
  const resume: Record<string, string> = last === null ? {} : { "Last-Event-ID": last };
  const response = await fetch(to("v1/stream"), {
    headers: { Accept: "text/event-stream", ...resume },
    signal: stop.signal,
    cache: "no-store",
    credentials: "same-origin",
  });
  if (response.status === 401) isRefused.value = true;
  if (!response.ok || !response.body) throw new ApiError(response.status, "stream", "no stream");
  link.value = "live";
  if (liveQueues.peek() === null) void firstQueues();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const read = eventReader();
  let alarm = setTimeout(() => stop.abort(), SILENCE);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(alarm);
      alarm = setTimeout(() => stop.abort(), SILENCE);
      take(read(value));
    }
  } finally {
    clearTimeout(alarm);
  }
}

let stop: AbortController | null = null;
let retry: ReturnType<typeof setTimeout> | undefined;
let wait = 500;

async function connect(): Promise<void> {
  const mine = new AbortController();
  stop = mine;
  const start = Date.now();
  try {
    await follow(mine);
  } catch {
    // the same whether it was refused, cut or never there: try again, later each time
  }
  if (stop !== mine) return; // we hung up ourselves
  stop = null;
  link.value = "away";
  wait = Date.now() - start > 5000 ? 500 : Math.min(wait * 2, RETRY_MAX);
  retry = setTimeout(connect, wait * (0.75 + Math.random() / 2));
}

function hangUp(): void {
  clearTimeout(retry);
  const old = stop;
  stop = null;
  old?.abort();
}

const isHidden = signal(document.hidden);
document.addEventListener("visibilitychange", () => (isHidden.value = document.hidden));

/** Whether pages may read by themselves now. */
export const isWatching = () => !isPaused.value && !isHidden.value;

effect(() => {
  const isWanted = isWatching() && !isRefused.value && me.value !== undefined;
  hangUp();
  if (isWanted) {
    wait = 500;
    link.value = "connecting";
    void connect();
  }
});

/** A test or a page that knows of a change can ask for a new frame. */
export function touch(): void {
  changes.value += 1;
}
