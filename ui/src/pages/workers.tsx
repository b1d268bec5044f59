// Workers: one square a slot, the silent ones first, and what each of them holds.

import { useQuery } from "../api/query";
import type { HeldLease, HeldLeases, WorkerInfo, Workers as WorkersReply } from "../api/types";
import { Empty, Loading, Panel, Problem, Stale, Time, Warning, JobLink } from "../parts/basics";
import { Page } from "../parts/shell";
import { age, between, count, duration, percent } from "../pure/format";
import { shortest } from "../pure/leases";
import { usualVersion, workerNotes } from "../pure/worker-notes";
import { now, serverTime } from "../state/clock";

const SILENT = 20;
const SLOTS_SHOWN = 96;
/** Seconds by which an event loop is late that are worth a colour. */
const LAG_MAX = 0.25;

const silence = (worker: WorkerInfo) => (worker.seen_at ? between(worker.seen_at, now.value) : 0);

export function Workers() {
  const read = useQuery<WorkersReply>("v1/workers", { every: 3, pace: 2 });
  const leases = useQuery<HeldLeases>("v1/leases?limit=200", { every: 3, pace: 2 });
  const workers = [...(read.data?.workers ?? [])].sort((a, b) => Number(silence(b) > SILENT) - Number(silence(a) > SILENT) || a.id.localeCompare(b.id));
  const held = leases.data?.leases;
  return (
    <Page title="Workers">
      <Stale error={read.error} at={read.at} />
      {workers.length > 0 && <Numbers workers={workers} leases={held} at={leases.at} />}
      <Panel title="Workers" note="one square a slot" tools={<Legend />}>
        {read.data ? (workers.length ? <WorkerTable workers={workers} leases={held} />
          : <Empty title="No worker runs" command="fencepost worker">Jobs wait until one does. A worker is listed here within seconds of its start.</Empty>)
          : read.error ? <Problem error={read.error} /> : <Loading rows={4} />}
      </Panel>
      {held && held.length > 0 && <LeaseTable leases={held} />}
      {(read.data?.gone ?? []).length > 0 && <GoneTable workers={read.data!.gone!} />}
    </Page>
  );
}

const Legend = () => (
  <div class="legend no-phone"><span class="s-running"><i />leased</span><span class="s-retrying"><i />lease ended</span><span class="s-plain"><i class="free" />free</span></div>
);

function Numbers({ workers, leases, at }: { workers: WorkerInfo[]; leases: HeldLease[] | undefined; at: number }) {
  const slots = workers.reduce((sum, worker) => sum + worker.concurrency, 0);
  const used = workers.reduce((sum, worker) => sum + (worker.running ?? 0), 0);
  const heard = workers.filter((worker) => silence(worker) <= SILENT).length;
  const next = leases && shortest(leases, serverTime(at));
  const versions = new Map<string, number>();
  for (const worker of workers) if (worker.version) versions.set(worker.version, (versions.get(worker.version) ?? 0) + 1);
  return (
    <section class="panel vitals v4">
      <div class="vital"><span class="k">Workers</span><span class={`v ${heard < workers.length ? "c s-retrying" : ""}`}>{heard} <small>of {workers.length}</small></span><span class="x">heard from within {SILENT} s</span></div>
      <div class="vital"><span class="k">Slots in use</span><span class="v">{count(used)} <small>of {count(slots)}</small></span><span class="x">{percent(used / Math.max(slots, 1))}</span></div>
      {leases && <div class="vital"><span class="k">Shortest lease</span><span class="v">{next ? duration(next.left) : "–"}</span><span class="x">{next ? `${next.lease.worker}, ${next.lease.type}` : "nobody runs"}</span></div>}
      {versions.size > 0 && <div class="vital"><span class="k">Versions</span><span class={`v ${versions.size > 1 ? "c s-retrying" : ""}`}>{versions.size}</span><span class="x">{[...versions].map(([name, each]) => `${name} on ${each}`).join(", ")}</span></div>}
    </section>
  );
}

function WorkerTable({ workers, leases }: { workers: WorkerInfo[]; leases: HeldLease[] | undefined }) {
  const hasMore = workers.some((worker) => worker.version || worker.fencepost_version);
  const usual = usualVersion(workers);
  return (
    <div class="scroll">
      <table class="cards wk">
        <thead><tr><th>Worker</th><th>Heard from</th><th>Slots</th><th class="n">In use</th><th>Queues, weight</th>{hasMore && <><th>Version</th><th class="n">Lag</th></>}<th class="n">Up</th><th>Note</th></tr></thead>
        <tbody>
          {workers.map((worker) => {
            const late = leases?.filter((lease) => lease.worker === worker.id && lease.is_expired).length ?? 0;
            return (
              <tr key={worker.id}>
                <td><b class="tr" title={(worker.types as string[]).join(", ")}>{worker.id}</b></td>
                <td class="n-phone">{silence(worker) > SILENT ? <Warning state="refused">silent {duration(silence(worker))}</Warning> : <Time at={worker.seen_at} />}</td>
                <td class="h"><Slots worker={worker} late={late} /></td>
                <td class="n h">{count(worker.running ?? 0)} <span class="q">/ {worker.concurrency}</span></td>
                <td class="sub only-phone q">{count(worker.running ?? 0)} of {worker.concurrency} slots in use</td>
                <td class="sub wrapok">{worker.queues === null ? "all queues" : Object.entries(worker.queues).map(([name, weight]) => (weight === 1 ? name : `${name} ${weight}`)).join(", ")}</td>
                {hasMore && <><td class="h"><span class={`mono ${usual !== null && worker.version && worker.version !== usual ? "c s-retrying b" : ""}`} title={worker.fencepost_version ? `Fencepost ${worker.fencepost_version}` : undefined}>{worker.version ?? "–"}</span></td><td class={`n h ${(worker.lag ?? 0) > LAG_MAX ? "c s-retrying b" : ""}`}>{worker.lag == null ? "–" : duration(worker.lag)}</td></>}
                <td class="n h">{age(between(worker.started_at, now.value))}</td>
                <td class="sub q sm wrapok">{workerNotes(worker, { late, usual, isLagging: (worker.lag ?? 0) > LAG_MAX }).join("; ")}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Slots({ worker, late }: { worker: WorkerInfo; late: number }) {
  const running = worker.running ?? 0;
  const shown = Math.min(worker.concurrency, SLOTS_SHOWN);
  return (
    <div class="slots" role="img" aria-label={`${running} of ${worker.concurrency} slots in use`}>
      {Array.from({ length: shown }, (_, index) => (
        <svg key={index} viewBox="0 0 12 12" aria-hidden="true"><rect class={`slot ${index < running ? `on s-${index < late ? "retrying" : "running"}` : ""}`} width="12" height="12" rx="2" /></svg>
      ))}
    </div>
  );
}

function LeaseTable({ leases }: { leases: HeldLease[] }) {
  return (
    <Panel title="Leases" note="what each worker holds now">
      <div class="scroll">
        <table class="cards">
          <thead><tr><th>Job</th><th>Worker</th><th>Queue</th><th class="n">Attempt</th><th class="n">Running for</th><th class="n">Lease left</th></tr></thead>
          <tbody>
            {leases.map((lease) => {
              const left = -between(lease.expires_at, now.value);
              return (
                <tr key={lease.job_id}>
                  <td><b>{lease.type}</b> <JobLink id={lease.job_id} /></td>
                  <td class="sub m">{lease.worker}</td><td class="h">{lease.queue}</td><td class="n h">{lease.attempt}</td>
                  <td class="n h">{lease.started_at ? duration(between(lease.started_at, now.value)) : "–"}</td>
                  <td class={`n ${left <= 0 ? "c s-refused b" : ""}`}>{left <= 0 ? `ended ${duration(-left)} ago` : duration(Math.ceil(left))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** Those that stopped or fell silent within an hour: what a deployment replaced, and what was killed. */
function GoneTable({ workers }: { workers: WorkerInfo[] }) {
  return (
    <Panel title="Gone" note="within the last hour">
      <div class="scroll">
        <table class="cards">
          <thead><tr><th>Worker</th><th>Last heard</th><th>How</th><th>Version</th><th class="n">Ran for</th></tr></thead>
          <tbody>
            {workers.map((worker) => (
              <tr key={worker.id}>
                <td><b class="tr">{worker.id}</b></td>
                <td><Time at={worker.seen_at} /></td>
                <td class="sub">{worker.has_stopped ? "stopped" : <Warning state="refused">fell silent</Warning>}</td>
                <td class="h mono">{worker.version ?? "–"}</td>
                <td class="n h">{worker.seen_at ? age(between(worker.started_at, Date.parse(worker.seen_at))) : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
