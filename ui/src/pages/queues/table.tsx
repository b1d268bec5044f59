// Queues as rows: what is wrong with one stands right behind its name.

import type { QueueView, Series, Statistics, WorkerInfo } from "../../api/types";
import { Act, Gauge, Link, Warning } from "../../parts/basics";
import { Paused } from "../../parts/paused";
import { Spark } from "../../parts/spark";
import { attention } from "../../pure/attention";
import { between, count, duration, rate } from "../../pure/format";
import { perMinute, valuesOf } from "../../pure/series";
import { weightOf } from "../../pure/weights";
import { locked, setPaused } from "../../state/actions";
import { now } from "../../state/clock";
import { askLimit } from "./limit";

/** What the table draws and counts: an hour of each queue. */
export const LANES = "v1/series?metric=depth&metric=enqueued&metric=completed&metric=failed&metric=dead&by=queue&window=1h";

const waiting = (queue: QueueView) => (queue.counts?.scheduled ?? 0) + (queue.counts?.retrying ?? 0);
const isUnserved = (queue: QueueView, workers: WorkerInfo[]) => attention([queue], workers, 0).some((item) => item.code === "no_worker");

export function worstFirst(queues: QueueView[], workers: WorkerInfo[]): QueueView[] {
  const weight = (queue: QueueView) => (isUnserved(queue, workers) ? 2e9 : queue.is_paused && waiting(queue) ? 1e9 : 0) + waiting(queue);
  return [...queues].sort((a, b) => weight(b) - weight(a) || a.name.localeCompare(b.name));
}

export function QueueTable({ queues, workers, stats, series, isShort = false }: {
  queues: QueueView[]; workers: WorkerInfo[] | undefined; stats: Statistics | undefined; series?: Series; isShort?: boolean;
}) {
  return (
    <div class="scroll">
      <table class="cards acted">
        <thead>
          <tr>
            <th>Queue</th><th class="n">Waiting</th><th class="n">Oldest</th><th class="n">Running</th><th>Of limit</th>
            <th class="n">Out / in a min</th><th class="n">Wait p99</th><th>Depth, 1 h</th>{!isShort && <><th class="n">Weight</th><th class="n">Actions</th></>}
          </tr>
        </thead>
        <tbody>{queues.map((queue) => <QueueRow key={queue.name} {...{ queue, workers, stats, series, isShort }} />)}</tbody>
      </table>
    </div>
  );
}

function QueueRow({ queue, workers, stats, series, isShort }: {
  queue: QueueView; workers: WorkerInfo[] | undefined; stats: Statistics | undefined; series?: Series; isShort: boolean;
}) {
  const figures = stats?.queues.find((each) => each.name === queue.name);
  const running = queue.counts?.running ?? 0;
  const limit = queue.max_running;
  const oldest = queue.oldest_at ? between(queue.oldest_at, now.value) : null;
  const depth = valuesOf(series, "depth", queue.name);
  const entering = perMinute(series, ["enqueued"], queue.name);
  const leaving = perMinute(series, ["completed", "failed", "dead"], queue.name);
  const isFull = limit != null && running >= limit;
  const isBad = workers !== undefined && isUnserved(queue, workers);
  return (
    <tr class={queue.is_paused ? "off" : ""}>
      <td>
        <span class="row"><Link class="b tr" to={`jobs?queue=${encodeURIComponent(queue.name)}`}>{queue.name}</Link>
          {queue.is_paused && <Paused kind="queue" name={queue.name} />}{isBad && <Warning>No worker</Warning>}{isFull && waiting(queue) > 0 && <Warning state="retrying" icon="lock">At its limit</Warning>}</span>
      </td>
      <td class="n" data-label="waiting">{count(waiting(queue))}</td>
      <td class={`n h ${isBad ? "c s-failed b" : ""}`}>{oldest === null ? "–" : duration(oldest)}</td>
      <td class="n h">{count(running)}{limit != null && <span class="q"> / {limit}</span>}</td>
      <td class="h">{limit == null ? <span class="q">no limit</span> : <Gauge share={running / Math.max(limit, 1)} state={isFull ? "retrying" : "running"} />}</td>
      <td class="n h">{leaving !== undefined ? rate(leaving / 60) : figures ? rate(figures.ended_rate) : "–"} <span class="q">/ {entering === undefined ? "–" : rate(entering / 60)}</span></td>
      <td class="n h">{figures?.wait ? duration(figures.wait.p99) : "–"}</td>
      <td class="h sp">{depth && <Spark values={depth} label={`Depth of ${queue.name}, last hour`} />}</td>
      <td class="sub only-phone q">{inWords(running, limit, oldest)}</td>
      {!isShort && <td class="n h">{weightOf(queue.name, workers ?? [])}</td>}
      {!isShort && (
        <td class="sub do">
          <span class="row acts">
            <Act role={locked("operate")} kind="quiet" onClick={() => askLimit({ queue: queue.name, before: queue.max_running ?? null, running })}>Limit…</Act>
            <Act role={locked("operate")} kind="quiet" onClick={() => setPaused("queues", queue.name, !queue.is_paused)}>{queue.is_paused ? "Resume" : "Pause"}</Act>
          </span>
        </td>
      )}
    </tr>
  );
}

/** What a phone has room for: "18 of 18 running, the oldest waits 4 s". */
function inWords(running: number, limit: number | null | undefined, oldest: number | null): string {
  const most = limit == null ? "" : ` of ${count(limit)}`;
  return `${count(running)}${most} running${oldest === null ? "" : `, the oldest waits ${duration(oldest)}`}`;
}
