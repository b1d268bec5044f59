// Six numbers, each with what stands behind it. A healthy number has no colour.

import type { QueueView, Statistics, WorkerInfo } from "../../api/types";
import type { Series } from "../../api/planned";
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
      {vitals(stats, queues, workers).map((vital) => {
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

function vitals(stats: Statistics | undefined, queues: QueueView[] | null, workers: WorkerInfo[] | undefined): Vital[] {
  const sum = (state: string) => (queues ?? []).reduce((total, queue) => total + (queue.counts?.[state] ?? 0), 0);
  const ended = (state: string) => (stats?.queues ?? []).reduce((total, each) => total + (each.ended[state] ?? 0), 0);
  const bad = ended("failed") + ended("dead_letter");
  const all = bad + ended("completed");
  const perMinute = (value: number) => rate(stats && stats.window ? value / stats.window : 0);
  const slots = (workers ?? []).reduce((total, worker) => total + worker.concurrency, 0);
  const oldest = (queues ?? []).filter((queue) => queue.oldest_at).sort((a, b) => (a.oldest_at! < b.oldest_at! ? -1 : 1))[0];
  const waits = oldest ? between(oldest.oldest_at!, now.value) : 0;
  const [wait, unit] = stats?.wait ? duration(stats.wait.p99).split(/ (.*)/) : ["–", ""];
  const [age, ageUnit] = oldest ? duration(waits).split(/ (.*)/) : ["0", ""];
  const isSlow = (stats?.wait?.p99 ?? 0) > 30;
  return [
    { name: "Completed a minute", value: stats ? perMinute(ended("completed")) : "–", note: stats ? `${rate(stats.submitted_rate)} submitted a minute` : "not known", metric: "completed" },
    { name: "Failures a minute", value: stats ? perMinute(bad) : "–", note: all ? `${percent(bad / all)} of what ended` : "", state: bad ? "failed" : undefined, metric: "failed" },
    { name: "Wait p99", value: wait!, unit, note: stats?.wait ? `p50 ${duration(stats.wait.p50)}` : "nothing ended lately", state: isSlow ? "retrying" : undefined, metric: "wait_p99" },
    { name: "Oldest waiting", value: queues ? age! : "–", unit: ageUnit, note: oldest?.name ?? "nobody waits", state: waits > 300 ? "failed" : undefined, metric: "oldest_age" },
    { name: "Running", value: queues ? count(sum("running")) : "–", unit: workers ? `of ${count(slots)} slots` : "", note: workers ? many(workers.length, "worker") : "", metric: "running" },
    { name: "Dead letters", value: queues ? count(sum("dead_letter")) : "–", note: sum("failed") ? `${count(sum("failed"))} failed for good` : "", state: sum("dead_letter") ? "dead_letter" : undefined, metric: "dead" },
  ];
}
