// Six numbers, each with what stands behind it. A healthy number has no colour.

import type { QueueView, Series, Statistics, WorkerInfo } from "../../api/types";
import { Spark } from "../../parts/spark";
import { between, count, duration, many, percent, rate } from "../../pure/format";
import { perMinute, usual, usualWords, valuesOf } from "../../pure/series";
import { now } from "../../state/clock";

/** Seconds, and how many times the usual, from which on a wait is worth a colour. */
const SLOW = 5;
const SLOWER = 5;

type Vital = { name: string; value: string; unit?: string; note: string; state?: string; metric?: string };

export function Vitals({ stats, queues, workers, series }: {
  stats: Statistics | undefined; queues: QueueView[] | null; workers: WorkerInfo[] | undefined; series: Series | undefined;
}) {
  return (
    <section class="panel vitals" aria-label="Vital signs">
      {vitals(stats, queues, workers, series).map((vital) => {
        const values = vital.metric && valuesOf(series, vital.metric);
        return (
          <div class="vital" key={vital.name}>
            <span class="k">{vital.name}</span>
            <span class={`v ${vital.state ? `c s-${vital.state}` : ""}`}>{vital.value}{vital.unit && <> <small>{vital.unit}</small></>}</span>
            <span class="x" title={vital.note}>{vital.note || "\u00a0"}</span>
            {values && <Spark values={values} state={vital.state ?? "plain"} height={24} label={`${vital.name}, last hour`} />}
          </div>
        );
      })}
    </section>
  );
}

function vitals(stats: Statistics | undefined, queues: QueueView[] | null, workers: WorkerInfo[] | undefined, series: Series | undefined): Vital[] {
  const sum = (state: string) => (queues ?? []).reduce((total, queue) => total + (queue.counts?.[state] ?? 0), 0);
  const ended = (state: string) => (stats?.queues ?? []).reduce((total, each) => total + (each.ended[state] ?? 0), 0);
  const bad = ended("failed") + ended("dead_letter");
  const all = bad + ended("completed");
  // The figures look at the newest jobs only: of many, that is seconds, and a burst would count as a minute.
  const shown = (known: number | undefined, sampled: number) => (known !== undefined ? rate(known / 60) : stats?.window ? rate(sampled / stats.window) : "–");
  const good = shown(perMinute(series, ["completed"]), ended("completed"));
  const failing = shown(perMinute(series, ["failed", "dead"]), bad);
  const submitted = `${shown(perMinute(series, ["enqueued"]), stats ? stats.submitted_rate * stats.window : 0)} submitted a minute`;
  const slots = (workers ?? []).reduce((total, worker) => total + worker.concurrency, 0);
  const oldest = (queues ?? []).filter((queue) => queue.oldest_at).sort((a, b) => (a.oldest_at! < b.oldest_at! ? -1 : 1))[0];
  const waits = oldest ? between(oldest.oldest_at!, now.value) : 0;
  const [wait, unit] = stats?.wait ? duration(stats.wait.p99).split(/ (.*)/) : ["–", ""];
  const [age, ageUnit] = oldest ? duration(waits).split(/ (.*)/) : ["0", ""];
  const often = (metric: string) => usualWords(usual(series, metric, true), (value) => rate(value / 60));
  const usualWait = usual(series, "wait_p99", false);
  const isSlow = (stats?.wait?.p99 ?? 0) > Math.max(SLOW, SLOWER * (usualWait?.middle ?? 0));
  const failed = sum("failed");
  const waitNote = [`p50 ${duration(stats?.wait?.p50 ?? 0)}`, usualWait && `usual p99 ${duration(usualWait.middle)}`].filter(Boolean).join("; ");
  return [
    { name: "Completed a minute", value: good, note: often("completed") || (stats ? submitted : "not known"), metric: "completed" },
    { name: "Failures a minute", value: failing, unit: all && bad ? percent(bad / all) : "", note: often("failed") || (all ? "of what ended" : ""), state: Number(failing) > 0 ? "failed" : undefined, metric: "failed" },
    { name: "Wait p99", value: wait!, unit, note: stats?.wait ? waitNote : "nothing ended lately", state: isSlow ? "retrying" : undefined, metric: "wait_p99" },
    { name: "Oldest waiting", value: queues ? age! : "–", unit: ageUnit, note: oldest?.name ?? "nobody waits", state: waits > 300 ? "failed" : undefined, metric: "oldest_age" },
    { name: "Running", value: queues ? count(sum("running")) : "–", unit: workers ? `of ${many(slots, "slot")}` : "", note: workers ? `${count(Math.max(0, slots - sum("running")))} free on ${many(workers.length, "worker")}` : "", metric: "running" },
    { name: "Dead letters", value: queues ? count(sum("dead_letter")) : "–", note: failed ? `and ${count(failed)} failed for good` : "", state: sum("dead_letter") ? "dead_letter" : undefined, metric: "dead" },
  ];
}
