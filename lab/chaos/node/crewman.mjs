// The worker of examples/node-worker under chaos: SETTINGS SERVER NAME [QUEUE CONCURRENCY].
//
// Its handlers are those of tasks.py, and note in a ledger what they do, in the lines of entries.py.

import { openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const [settingsPath, server, name, queue = "default", concurrency] = process.argv.slice(2);
const settings = JSON.parse(readFileSync(settingsPath));
Object.assign(process.env, {
  FENCEPOST_SERVER: server,
  FENCEPOST_QUEUES: queue,
  FENCEPOST_CONCURRENCY: String(concurrency ?? settings.concurrency),
  FENCEPOST_LEASE_TTL: String(settings.ttl),
  FENCEPOST_GRACE: "1",
  FENCEPOST_POLL: "1",
});
const path = "../../../examples/node-worker/worker.mjs";
const { PermanentError, WORKER, work } = await import(path); // it reads what was set above

const CHECKPOINTS = 4;
const CHECKPOINT_DELAY = 100;
const NAP = 50;

const book = openSync(join(settings.folder, "ledgers", `worker-${name}-${process.pid}.jsonl`), "a");
const note = (is, line) => writeSync(book, `${JSON.stringify({ is, at: Date.now() / 1000, ...line })}\n`);

process.stdin.resume().on("end", () => process.exit(1)); // the crew is gone

let before = performance.now();
setInterval(() => {
  const late = (performance.now() - before - NAP) / 1000;
  if (late > settings.ttl / 6) note("Stalled", { pid: process.pid, seconds: late });
  before = performance.now();
}, NAP);

/** Return a handler that notes when *act* begins and how it ends; its result is the lease. */
const noting = (act) => async ({ number }, ctx) => {
  const { id: job, type, attempt, lease: { version, token } } = ctx.job;
  const checkpoint = ctx.lastCheckpoint;
  note("Started", { job, type, version, attempt, token, pid: process.pid, checkpoint });
  let how = "interrupted";
  try {
    await act(ctx, number, () => note("Effected", { job, version }));
    how = "returned";
    return version;
  } catch (error) {
    if (!ctx.signal.aborted) how = "raised";
    throw error;
  } finally {
    note("Ended", { job, version, how });
  }
};

const lasting = (milliseconds) => async (ctx, _, effect) => {
  await sleep(milliseconds, null, { signal: ctx.signal });
  effect();
};

async function fail(ctx, number, effect) {
  if (number % 4 === 0) throw Object.assign(new PermanentError("it never works"), { code: "never" });
  if (ctx.job.attempt <= 2) throw new Error("not yet");
  effect();
}

async function keep(ctx, _, effect) {
  for (let step = (ctx.lastCheckpoint ?? 0) + 1; step <= CHECKPOINTS; step++) {
    await sleep(CHECKPOINT_DELAY, null, { signal: ctx.signal });
    effect();
    await ctx.checkpoint(step);
    note("Kept", { job: ctx.job.id, version: ctx.job.lease.version, step });
  }
}

const quick = noting(async (_, __, effect) => effect());
note("Up", { worker: WORKER, pid: process.pid, code: fileURLToPath(new URL(path, import.meta.url)) });
await work({
  quick,
  ordered: quick,
  threaded: noting(lasting(10)),
  beating: noting(lasting(settings.ttl * 500)),
  lasting: noting(lasting(settings.ttl * 1600)),
  failing: noting(fail),
  keeping: noting(keep),
  keyed: noting(lasting(250)),
  billing: quick,
  shipping: quick,
  tick: quick,
});
