import { useQuery } from "../../api/query";
import type { AppLimit, Queues as QueuesReply, QueueView, Series, Statistics, TypeView, Types, Workers } from "../../api/types";
import { Act, Empty, Link, Loading, Panel, Problem, Stale } from "../../parts/basics";
import { Paused, WithPauses } from "../../parts/paused";
import { Spark } from "../../parts/spark";
import { Page } from "../../parts/shell";
import { count, duration, many, percent, rate } from "../../pure/format";
import { rateWords } from "../../pure/rates";
import { valuesOf } from "../../pure/series";
import { locked, setPaused } from "../../state/actions";
import { askLimit, LimitBox } from "./limit";
import { askRate, RateBox } from "./rate";
import { LANES, QueueTable, worstFirst } from "./table";

/** A smaller share of success is worth a colour. */
const SUCCEED_MIN = 0.9;

export function Queues() {
  const queues = useQuery<QueuesReply>("v1/queues", { every: 5, pace: 1 });
  const types = useQuery<Types>("v1/types", { every: 5, pace: 2 });
  const stats = useQuery<Statistics>("v1/stats?window=5m", { every: 5, pace: 2 });
  const workers = useQuery<Workers>("v1/workers", { every: 5, pace: 5 });
  const lanes = useQuery<Series>(LANES, { every: 10, pace: 10 });
  const ended = useQuery<Series>("v1/series?metric=completed&by=type&window=1h", { every: 10, pace: 10 });
  const fleet = workers.data?.workers;
  return (
    <Page title="Queues & types">
      <Stale error={queues.error} at={queues.at} />
      <WithPauses isNeeded={[...(queues.data?.queues ?? []), ...(types.data?.types ?? [])].some((each) => each.is_paused)}>
      <Panel title="Queues" note={queues.data && "worst first"} tools={<AllQueues queues={queues.data?.queues ?? []} />}>
        {queues.data ? (queues.data.queues.length
          ? <QueueTable queues={worstFirst(queues.data.queues, fleet ?? [])} workers={fleet} stats={stats.data} series={lanes.data} />
          : <Empty title="No queue yet" command="fencepost dev">A queue appears with its first job.</Empty>)
          : queues.error ? <Problem error={queues.error} /> : <Loading rows={4} />}
      </Panel>
      {!(types.error?.status === 403) && (
        <Panel title="Types">
          {types.data ? (types.data.types.length ? <TypeTable types={types.data.types} stats={stats.data} series={ended.data} />
            : <Empty title="No type yet">A type is the name of a task; it appears with its first job.</Empty>)
            : types.error ? <Problem error={types.error} /> : <Loading rows={4} />}
        </Panel>
      )}
      </WithPauses>
      <LimitBox />
      <RateBox />
    </Page>
  );
}

/** The limit of all queues together; hidden from a token for some of them. */
function AllQueues({ queues }: { queues: QueueView[] }) {
  const limit = useQuery<AppLimit>("v1/limit", { every: 15, pace: 5 });
  if (!limit.data) return null;
  const most = limit.data.max_running;
  const running = queues.reduce((sum, queue) => sum + (queue.counts?.running ?? 0), 0);
  return (
    <>
      <span class="q sm no-phone">All queues together: {most === null ? `${count(running)} running, no limit` : `${count(running)} of ${count(most)} running`}</span>
      <Act role={locked("operate")} kind="quiet" title="Limit of all queues together" onClick={() => askLimit({ queue: null, before: most, running })}>Change…</Act>
    </>
  );
}

function TypeTable({ types, stats, series }: { types: TypeView[]; stats: Statistics | undefined; series: Series | undefined }) {
  return (
    <div class="scroll">
      <table class="cards acted">
        <thead><tr><th>Type</th><th class="n">Waiting</th><th class="n">Running</th><th class="n">Out a min</th><th class="n">Succeed</th><th class="n">Run p50</th><th class="n">Run p99</th><th>Completed, 1 h</th><th class="n">Dead</th><th>Rate</th><th class="n">Actions</th></tr></thead>
        <tbody>{types.map((type) => <TypeRow key={type.name} type={type} stats={stats} series={series} />)}</tbody>
      </table>
    </div>
  );
}

/** The share of what ended by itself; null if nothing has. */
function succeeded(ended: Record<string, number> = {}): number | null {
  const good = ended.completed ?? 0;
  const all = good + (ended.failed ?? 0) + (ended.dead_letter ?? 0);
  return all ? good / all : null;
}

function TypeRow({ type, stats, series }: { type: TypeView; stats: Statistics | undefined; series: Series | undefined }) {
  const values = valuesOf(series, "completed", type.name);
  const figures = stats?.types.find((each) => each.name === type.name);
  const share = succeeded(figures?.ended);
  const counts = type.counts ?? {};
  const dead = counts.dead_letter ?? 0;
  return (
    <tr class={type.is_paused ? "off" : ""}>
      <td><span class="row"><Link class="b tr" to={`jobs?type=${encodeURIComponent(type.name)}`}>{type.name}</Link>{type.is_paused && <Paused kind="type" name={type.name} />}</span></td>
      <td class="n">{count((counts.scheduled ?? 0) + (counts.retrying ?? 0))}</td>
      <td class="n h">{count(counts.running ?? 0)}</td>
      <td class="n h">{figures ? rate(figures.ended_rate) : "–"}</td>
      <td class={`n h ${share !== null && share < SUCCEED_MIN ? "c s-failed b" : ""}`}>{share === null ? "–" : percent(share)}</td>
      <td class="n h">{figures?.run ? duration(figures.run.p50) : "–"}</td>
      <td class="n h">{figures?.run ? duration(figures.run.p99) : "–"}</td>
      <td class="h sp">{values && <Spark values={values} label={`Completed jobs of ${type.name}, last hour`} />}</td>
      <td class={`n h ${dead ? "c s-dead_letter b" : ""}`}>{count(dead)}</td>
      <td class={`h ${type.rate ? "" : "q"}`}>{type.rate ? rateWords(type.rate) : "no rate"}</td>
      <td class="sub only-phone q">{count(counts.running ?? 0)} running{dead > 0 && `, ${many(dead, "dead letter")}`}{type.rate && `, at most ${rateWords(type.rate)}`}</td>
      <td class="sub do"><span class="row acts"><Act role={locked("operate")} kind="quiet" onClick={() => askRate({ type: type.name, before: type.rate ?? null })}>Rate…</Act><Act role={locked("operate")} kind="quiet" onClick={() => setPaused("types", type.name, !type.is_paused)}>{type.is_paused ? "Resume" : "Pause"}</Act></span></td>
    </tr>
  );
}
