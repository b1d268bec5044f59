// What needs me, since when, how much; then numbers, then charts, then tables.

import { useQuery } from "../../api/query";
import type { Attention, Queues, Series, Statistics, Types, Workers } from "../../api/types";
import { Choice, Empty, Gauge, Link, Loading, Panel, Problem, Stale } from "../../parts/basics";
import { Pick } from "../../parts/pick";
import { Page } from "../../parts/shell";
import { attention } from "../../pure/attention";
import { count, exact, many } from "../../pure/format";
import { now } from "../../state/clock";
import { liveQueues } from "../../state/live";
import { params, setParams } from "../../state/route";
import { LANES, QueueTable, worstFirst } from "../queues/table";
import { AttentionList } from "./attention";
import { ChartRoom, Charts, METRICS } from "./charts";
import { FencePanel } from "./fence";
import { Vitals } from "./vitals";

const WINDOWS = ["1 h", "6 h", "24 h", "7 d"] as const;
const SPANS: Record<(typeof WINDOWS)[number], string> = { "1 h": "Last hour", "6 h": "Last 6 hours", "24 h": "Last 24 hours", "7 d": "Last 7 days" };
const QUEUES_SHOWN = 8;

export function Overview() {
  const first = useQuery<Queues>("v1/queues", { every: 5 });
  const stats = useQuery<Statistics>("v1/stats?window=5m", { every: 5, pace: 2 });
  const workers = useQuery<Workers>("v1/workers", { every: 5, pace: 5 });
  const needs = useQuery<Attention>("v1/attention", { every: 5, pace: 3 });
  const window = WINDOWS.find((each) => each.replace(" ", "") === params.value.get("window")) ?? "1 h";
  const metrics = METRICS.map((metric) => `metric=${metric}`).join("&");
  const [queue, type] = [params.value.get("queue"), params.value.get("type")];
  const within = [["queue", queue], ["type", type]].map(([name, value]) => (value ? `&${name}=${encodeURIComponent(value)}` : "")).join("");
  const series = useQuery<Series>(`v1/series?${metrics}&window=${window.replace(" ", "")}${within}`, { every: 10, pace: 10 });
  const hour = useQuery<Series>("v1/series?metric=completed&metric=enqueued&metric=failed&metric=wait_p99&metric=oldest_age&metric=running&metric=dead&window=1h", { every: 10, pace: 10 });
  const lanes = useQuery<Series>(LANES, { every: 10, pace: 10 });
  const types = useQuery<Types>("v1/types", { every: 30, pace: 30 });
  const queues = liveQueues.value ?? first.data?.queues ?? null;
  const fleet = workers.data?.workers;
  const items = needs.data?.items ?? (queues && fleet ? attention(queues, fleet, now.value) : []);
  const isEmpty = queues !== null && !queues.length;

  return (
    <Page title="Overview">
      <Verdict items={items.filter((item) => item.level === "now").length} more={items.filter((item) => item.level !== "now").length} isKnown={queues !== null} />
      <Stale error={first.error} at={first.at} />
      <AttentionList items={items} />
      <Vitals stats={stats.data} queues={queues} workers={fleet} series={hour.data} />
      {!series.isMissing && (
        <>
          <div class="row wrap"><h2>{SPANS[window]}</h2><span class="q sm">{queue ? `queue ${queue}` : "all queues"}, {type ? `type ${type}` : "all types"}</span><span class="grow" />
            <Pick label="Queue of the charts" all="All queues" names={(queues ?? []).map((each) => each.name)} value={queue} onChange={(value) => setParams({ queue: value })} />
            <Pick label="Type of the charts" all="All types" names={(types.data?.types ?? []).map((each) => each.name)} value={type} onChange={(value) => setParams({ type: value })} />
            <Choice label="Time" options={WINDOWS} value={window} onChange={(value) => setParams({ window: value === "1 h" ? null : value.replace(" ", "") })} /></div>
          {series.data ? <Charts data={series.data} /> : <ChartRoom />}
        </>
      )}
      <div class="grid-21">
        <Panel title="Queues" note="worst first" tools={<Link class="btn quiet" to="queues">All queues</Link>}>
          {first.error && !queues ? <Problem error={first.error} /> : !queues ? <Loading rows={5} /> : isEmpty
            ? <Empty title="No queue yet" command="fencepost dev">A queue appears with its first job.</Empty>
            : <QueueTable queues={worstFirst(queues, fleet ?? []).slice(0, QUEUES_SHOWN)} workers={fleet} stats={stats.data} series={lanes.data} isShort />}
        </Panel>
        <div class="stack">
          <FencePanel queues={queues} stats={stats.data} />
          {fleet && (
            <Panel title="Workers" note={many(fleet.length, "live worker", "live workers")} tools={<Link class="btn quiet" to="workers">All</Link>}>
              {fleet.length ? (
                <div class="wl">
                  {fleet.slice(0, 8).map((worker) => [
                    <span class="tr" key={worker.id} title={worker.id}>{worker.id}</span>,
                    <span class="q n" key={`${worker.id} n`}>{count(worker.running ?? 0)} / {worker.concurrency}</span>,
                    <Gauge key={`${worker.id} g`} share={(worker.running ?? 0) / worker.concurrency} state="running" />,
                  ])}
                </div>
              ) : <Empty title="No worker runs" command="fencepost worker">Jobs wait until one does.</Empty>}
            </Panel>
          )}
        </div>
      </div>
    </Page>
  );
}

function Verdict({ items, more, isKnown }: { items: number; more: number; isKnown: boolean }) {
  const text = !isKnown ? "Looking…" : items ? `${many(items, "thing needs", "things need")} you now` : "All well";
  return (
    <div class="verdict" role="status">
      <h2 class="title">{text}</h2>
      <span class="m">{more > 0 && `${more} more to know · `}{exact(new Date(now.value).toISOString()).replace(/\.\d+/, "")}</span>
    </div>
  );
}
