// Three charts of the chosen time. Failures have a scale of their own: 60 beside 5,000 would be flat.

import type { Series } from "../../api/types";
import { Panel } from "../../parts/basics";
import { Chart, type Line } from "../../parts/chart";
import { duration, pace, powerOfTen } from "../../pure/format";

export const METRICS = ["completed", "failed", "dead", "wait_p50", "wait_p99", "run_p50", "run_p99"];

const sum = (a: (number | null)[], b: (number | null)[]) => a.map((value, index) => (value === null && b[index] == null ? null : (value ?? 0) + (b[index] ?? 0)));

export function Charts({ data }: { data: Series }) {
  const values = (metric: string) => data.series.find((each) => each.metric === metric)?.values ?? [];
  const shared = { start: Date.parse(data.start), step: data.step };
  const line = (name: string, metric: string, state: string, isDashed = false): Line => ({ name, state, values: values(metric), isDashed });
  const aMinute = (counted: (number | null)[]) => counted.map((value) => (value === null ? null : (value * 60) / data.step));
  return (
    <div class="grid3">
      <Panel title="Completed" note="a minute">
        <Chart {...shared} kind="area" format={pace} label="Completed jobs a minute" lines={[{ name: "completed", state: "completed", values: aMinute(values("completed")) }]} />
      </Panel>
      <Panel title="Failures" note="a minute, own scale">
        <Chart {...shared} kind="bars" format={pace} label="Failed jobs a minute" lines={[{ name: "failures", state: "failed", values: aMinute(sum(values("failed"), values("dead"))) }]} />
      </Panel>
      <Panel title="Wait and run" tools={<Legend />}>
        <Chart {...shared} kind="lines" isLog format={duration} axis={powerOfTen} label="Time of wait and run, p50 and p99, on a log scale" words={([waits, wait, runs, run]) => `wait ${wait}, p99 ${waits} · run ${run}, p99 ${runs}`} lines={[
          line("wait p99", "wait_p99", "scheduled"), line("wait p50", "wait_p50", "scheduled", true),
          line("run p99", "run_p99", "running"), line("run p50", "run_p50", "running", true),
        ]} />
      </Panel>
    </div>
  );
}

/** The room of the charts, before their data comes. */
export function ChartRoom() {
  return (
    <div class="grid3">
      {["Completed", "Failures", "Wait and run"].map((title) => (
        <Panel title={title} key={title}><div class="chart"><div class="plot" /><div class="caption" /></div></Panel>
      ))}
    </div>
  );
}

function Legend() {
  return (
    <div class="legend">
      <span class="s-scheduled"><i class="solid" />wait</span><span class="s-running"><i class="solid" />run</span>
      <span class="s-plain"><i class="solid" />p99</span><span class="s-plain"><i class="dash" />p50</span>
    </div>
  );
}
