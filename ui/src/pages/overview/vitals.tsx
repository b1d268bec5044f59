// Six numbers, each with what stands behind it. A healthy number has no colour.

import type { QueueView, Series, Statistics, WorkerInfo } from "../../api/types";
import { Spark } from "../../parts/spark";
import { between, count, duration, many, percent, rate } from "../../pure/format";
import { now } from "../../state/clock";

type Vital = { name: string; value: string; unit?: string; note: string; state?: string; metric?: string };

const valuesOf = (series: Series | undefined, metric: string) =>
  series?.series.find((each) => each.metric === metric && each.name === null)?.values;

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

/** How many a minute, over the last five; undefined where nothing was sampled. */
function perMinute(series: Series | undefined, ...metrics: string[]): number | undefined {
  if (!series) return undefined;
  const length = Math.max(1, Math.round(300 / series.step));
  const found = metrics.map((metric) => (valuesOf(series, metric) ?? []).slice(-length).filter((value) => value !== null));
  const known = found[0]!.length;
  return known ? found.flat().reduce((sum, value) => sum + value, 0) / ((known * series.step) / 60) : undefined;
}

function vitals(stats: Statistics | undefined, queues: QueueView[] | null, workers: WorkerInfo[] | undefined, series: Series | undefined): Vital[] {
  const sum = (state: string) => (queues ?? []).reduce((total, queue) => total + (queue.counts?.[state] ?? 0), 0);
  const ended = (state: string) => (stats?.queues ?? []).reduce((total, each) => total + (each.ended[state] ?? 0), 0);
  const bad = ended("failed") + ended("dead_letter");
  const all = bad + ended("completed");
  // The figures look at the newest jobs only: of many, that is seconds, and a burst would count as a minute.
  const shown = (told: number | undefined, sampled: number) => (told !== undefined ? rate(told / 60) : stats?.window ? rate(sampled / stats.window) : "–");
  const good = shown(perMinute(series, "completed"), ended("completed"));
  const failing = shown(perMinute(series, "failed", "dead"), bad);
  const slots = (workers ?? []).reduce((total, worker) => total + worker.concurrency, 0);
  const oldest = (queues ?? []).filter((queue) => queue.oldest_at).sort((a, b) => (a.oldest_at! < b.oldest_at! ? -1 : 1))[0];
  const waits = oldest ? between(oldest.oldest_at!, now.value) : 0;
  const [wait, unit] = stats?.wait ? duration(stats.wait.p99).split(/ (.*)/) : ["–", ""];
  const [age, ageUnit] = oldest ? duration(waits).split(/ (.*)/) : ["0", ""];
  const isSlow = (stats?.wait?.p99 ?? 0) > 30;
  return [
    { name: "Completed a minute", value: good, note: stats ? `${shown(perMinute(series, "enqueued"), stats.submitted_rate * stats.window)} submitted a minute` : "not known", metric: "completed" },
    { name: "Failures a minute", value: failing, note: all ? `${percent(bad / all)} of what ended` : "", state: Number(failing) > 0 ? "failed" : undefined, metric: "failed" },
    { name: "Wait p99", value: wait!, unit, note: stats?.wait ? `p50 ${duration(stats.wait.p50)}` : "nothing ended lately", state: isSlow ? "retrying" : undefined, metric: "wait_p99" },
    { name: "Oldest waiting", value: queues ? age! : "–", unit: ageUnit, note: oldest?.name ?? "nobody waits", state: waits > 300 ? "failed" : undefined, metric: "oldest_age" },
    { name: "Running", value: queues ? count(sum("running")) : "–", unit: workers ? `of ${count(slots)} slots` : "", note: workers ? many(workers.length, "worker") : "", metric: "running" },
    { name: "Dead letters", value: queues ? count(sum("dead_letter")) : "–", note: sum("failed") ? `${count(sum("failed"))} failed for good` : "", state: sum("dead_letter") ? "dead_letter" : undefined, metric: "dead" },
  ];
}
