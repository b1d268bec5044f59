// The lease: what the store said, run down by the server's clock. It never counts on alone.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Attempt, JobView, RefusedWrites } from "../../api/types";
import { Icon, Panel, Time } from "../../parts/basics";
import { between, clock, duration, many, relative } from "../../pure/format";
import { writerOf } from "../../pure/refusals";
import { now, rightNow } from "../../state/clock";
import type { Beat } from "./timeline";

const LENGTH = 2 * Math.PI * 48;
const TTL_GUESS = 30;
const FRESH = 8000;
/** Milliseconds after a claim in which an attempt starts. */
const CLAIMED_WITHIN = 1000;
const reduced = matchMedia("(prefers-reduced-motion: reduce)");

/** Heartbeats that are known: each moves the expiry, while the page is open. With a TTL of its own, a job also says when the last one before was. */
export function useBeats(job: JobView | undefined): { beats: Beat[]; ttl: number } {
  const seen = useRef<{ version: number; expiry: string; beats: Beat[]; ttl: number }>({ version: 0, expiry: "", beats: [], ttl: 0 });
  const lease = job?.lease;
  const held = seen.current;
  if (lease && lease.version !== held.version) seen.current = { version: lease.version, expiry: lease.expires_at, beats: firstBeats(job), ttl: 0 };
  if (lease) {
    const kept = seen.current;
    const left = -between(lease.expires_at, rightNow());
    if (lease.expires_at !== kept.expiry) {
      kept.beats = [...kept.beats, { at: rightNow(), version: lease.version }].slice(-40);
      kept.expiry = lease.expires_at;
    }
    kept.ttl = Math.max(kept.ttl, left);
  }
  const ttl = job?.policy.lease_ttl;
  return { beats: seen.current.beats, ttl: ttl ?? Math.max(seen.current.ttl, job?.lease ? 1 : TTL_GUESS) };
}

/** The heartbeat before the page was opened, if the length of the lease is known and it is not the claim itself. */
function firstBeats(job: JobView): Beat[] {
  const { lease, started_at: started } = job;
  if (!lease || !started || job.policy.lease_ttl === null) return [];
  const at = Date.parse(lease.expires_at) - job.policy.lease_ttl * 1000;
  return at - Date.parse(started) > CLAIMED_WITHIN ? [{ at, version: lease.version }] : [];
}

export function LeasePanel({ job, attempts, ttl, beats, at, refusals }: {
  job: JobView; attempts: Attempt[]; ttl: number; beats: Beat[]; at: number; refusals: RefusedWrites | undefined;
}) {
  const lease = job.lease;
  const fence = attempts.length;
  return (
    <Panel title="Lease" class="o1" tools={lease && <span class="q sm">TTL {duration(ttl)}</span>}>
      {lease ? (
        <div class="lease">
          <Ring expiresAt={lease.expires_at} ttl={ttl} isFresh={Date.now() - at < FRESH} at={at} />
          <dl class="kv">
            <dt>Fence</dt><dd class="b fenceno" title={`version ${lease.version}`}>{fence}</dd>
            <dt>Holder</dt><dd class="b" title={lease.worker}>{lease.worker}</dd>
            <dt>Claimed</dt><dd><Time at={job.started_at} /></dd>
            <dt>Expires</dt><dd>{clock(lease.expires_at)}</dd>
            <dt>Heartbeats</dt><dd>{beats.length ? `${beats.length} seen, ${relative(new Date(Math.min(beats.at(-1)!.at, now.value)).toISOString(), now.value)}` : "none seen yet"}</dd>
          </dl>
        </div>
      ) : <NoLease job={job} fence={fence} />}
      {refusals && refusals.refusals.length > 0 && <RefusedNote refusals={refusals} attempts={attempts} />}
    </Panel>
  );
}

function NoLease({ job, fence }: { job: JobView; fence: number }) {
  const isOver = job.completed_at !== null;
  return (
    <div class="lease">
      <RingShape share={0} state="plain" label="No lease"><b>–</b></RingShape>
      <p class="m">
        {isOver
          ? fence ? `Nobody holds it: the job has ended. ${many(fence, "fence was", "fences were")} given out.` : "Nobody ever held it: the job ended before a claim."
          : `Nobody holds it. The next claim gets fence ${fence + 1}.`}
      </p>
    </div>
  );
}

function Ring({ expiresAt, ttl, isFresh, at }: { expiresAt: string; ttl: number; isFresh: boolean; at: number }) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (!isFresh) return;
    const timer = setInterval(() => draw((count) => count + 1), reduced.matches ? 1000 : 250);
    return () => clearInterval(timer);
  }, [isFresh]);
  const left = -between(expiresAt, isFresh ? rightNow() : at);
  if (!isFresh) {
    const old = Math.round((Date.now() - at) / 1000);
    return <RingShape share={left / ttl} state="plain" label={`Lease as of ${old} s ago`}><b>{Math.max(0, Math.ceil(left))}</b><span class="q sm">as of {old} s ago</span></RingShape>;
  }
  if (left <= 0) {
    return <RingShape share={1} state="refused" label="The lease has ended"><b>0</b><span class="q sm">ended {duration(-left)} ago</span></RingShape>;
  }
  const state = left < ttl / 2 ? "retrying" : "running";
  return <RingShape share={left / ttl} state={state} label={`${Math.ceil(left)} seconds of the lease are left`}><b>{Math.ceil(left)}</b><span class="q sm">s left</span></RingShape>;
}

function RingShape({ share, state, label, children }: { share: number; state: string; label: string; children: preact.ComponentChildren }) {
  const offset = LENGTH * (1 - Math.max(0, Math.min(1, share)));
  return (
    <div class={`ring s-${state}`} role="img" aria-label={label}>
      <svg viewBox="0 0 104 104" aria-hidden="true">
        <circle class="base" cx="52" cy="52" r="48" />
        {share > 0 && <circle class="arc" cx="52" cy="52" r="48" stroke-dasharray={LENGTH} stroke-dashoffset={offset} />}
      </svg>
      <div class="num">{children}</div>
    </div>
  );
}

function RefusedNote({ refusals, attempts }: { refusals: RefusedWrites; attempts: Attempt[] }) {
  const last = refusals.refusals[0];
  return (
    <div class="refusal">
      <Icon name="refused" state="refused" />
      <div>
        <span class="t">{many(refusals.refusals.length, "stale write")} refused</span>
        {last && <><br />{last.operation} by {writerOf(last, attempts)}, {relative(last.at, now.value)}; nothing changed</>}
      </div>
    </div>
  );
}
