// A complete Fencepost worker for Node 20 or newer, without packages; README.md says how to use it.
// A claimed job is ours while its lease lasts, and heartbeats extend it. Every write names the
// token of the lease. A write whose reply was lost can be repeated; after a 409 the lease is lost:
// the handler is stopped, and nothing more is written about the job.
import { EventEmitter, once } from "node:events";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";

const { env } = process;
const SERVER = env.FENCEPOST_SERVER ?? "http://127.0.0.1:8000";
const HEADERS = { "content-type": "application/json" };
if (env.FENCEPOST_TOKEN) HEADERS.authorization = `Bearer ${env.FENCEPOST_TOKEN}`;
const QUEUES = env.FENCEPOST_QUEUES?.split(","); // unless set: all
const CONCURRENCY = Number(env.FENCEPOST_CONCURRENCY ?? 10);
const LEASE_TTL = Number(env.FENCEPOST_LEASE_TTL ?? 30); // seconds, like all times here
const GRACE = Number(env.FENCEPOST_GRACE ?? 25); // for running handlers after a signal to stop
const POLL = Number(env.FENCEPOST_POLL ?? 5); // for a claim to wait, and an idle worker to stop
const PATIENCE = 10; // for any other answer

export const WORKER = env.FENCEPOST_WORKER ?? `node-${crypto.randomUUID()}`; // new at every start
export class PermanentError extends Error { category = "permanent"; } // another try would not help
class LeaseLost extends Error {}
class Stopping extends Error {}

const hand = new Set(); // what we hold: from its claim until its end is written, or it is lost
const news = new EventEmitter(); // "free": there is room in our hand
const batches = {}; // writes that are about to be posted, by kind
let isStopping = false;

/** Run jobs until a signal to stop; handlers, by type, are called as `handler(payload, ctx)`. */
export async function work(handlers) {
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, stop);
  setInterval(beat, 100);
  await claim(handlers);
  while (hand.size) await once(news, "free");
  process.exit();
}

function stop() {
  if (isStopping) process.exit(1); // second signal: at once
  isStopping = true;
  setTimeout(() => hand.forEach(({ end }) => end.abort(new Stopping())), GRACE * 1000);
}

async function claim(handlers) {
  const wish = { worker: WORKER, queues: QUEUES, types: Object.keys(handlers) };
  for (let failures = 0; !isStopping; ) {
    if (hand.size >= CONCURRENCY) { await once(news, "free"); continue; }
    Object.assign(wish, { limit: CONCURRENCY - hand.size, lease_ttl: LEASE_TTL, timeout: POLL });
    // Never abort a claim, not even to stop: jobs of an unread reply would stay leased.
    const reply = await post("/v1/claims", JSON.stringify(wish), POLL + PATIENCE);
    if (isRefused(reply)) throw new Error(`claim refused: ${reply.status} ${reply.body.detail}`);
    failures = reply.status === 200 ? 0 : failures + 1;
    if (failures) await backOff(reply, failures);
    else reply.body.jobs.forEach((job) => run(job, handlers[job.type]));
  }
}

async function run(job, handler) {
  const end = new AbortController();
  const held = { job, end, beatAt: now() + job.lease_ttl / 3, endsAt: now() + job.lease_ttl };
  const late = Object.assign(new Error(`over ${job.timeout} s`), { category: "timeout" });
  const timer = setTimeout(() => end.abort(late), Math.min(job.timeout * 1000, 2 ** 31 - 1));
  hand.add(held);
  try {
    if (isStopping) throw new Stopping(); // it came with the last claim
    const aborted = once(end.signal, "abort").then(() => end.signal.throwIfAborted());
    const running = (async () => handler(bodyOf(job, "payload"), context(held)))();
    const result = await Promise.race([running, aborted]);
    await write(held, "ack", { result });
  } catch (thrown) {
    const error = end.signal.aborted ? end.signal.reason : thrown;
    if (error instanceof LeaseLost) return console.error(job.id, "lost"); // or cancelled
    const [kind, fields] = error instanceof Stopping ? ["release"] : ["nack", failure(error)];
    await write(held, kind, fields).catch((why) => console.error(job.id, "given up:", why.message));
  } finally {
    clearTimeout(timer);
    hand.delete(held);
    news.emit("free");
  }
}

const context = (held) => ({
  job: held.job,
  signal: held.end.signal, // give it to whatever can be aborted
  lastCheckpoint: bodyOf(held.job, "checkpoint"), // of an earlier attempt, or null
  checkpoint: (checkpoint) => write(held, "checkpoint", { checkpoint }),
  progress: (fraction, message) => write(held, "progress", { fraction, message }).catch(() => {}),
});

function failure(error) {
  const { category = "temporary", code, name, stack, retryAfter } = Object(error);
  const failure = { message: `${error?.message ?? error}`, exception: name, traceback: stack };
  return { category, code: code && `${code}`, retry_after: retryAfter, ...failure };
}

/** Extend all leases as soon as one has lasted for a third of its time; drop what ran out. */
function beat() {
  const isDue = [...hand].some(({ beatAt }) => now() >= beatAt);
  for (const held of hand) {
    const ttl = held.job.lease_ttl;
    if (now() >= held.endsAt) lose(held);
    if (!isDue) continue;
    held.beatAt = now() + ttl / 3;
    const sent = write(held, "heartbeat", { lease_ttl: ttl });
    sent.then((at) => (held.endsAt = at + ttl), () => {}); // or it is lost, or will run out
  }
}

/** Write under a lease until that is answered; return when it was sent. */
async function write(held, kind, fields) {
  const text = JSON.stringify({ id: held.job.id, token: held.job.lease.token, ...fields });
  for (let tries = 0; hand.has(held); tries++) {
    const sentAt = now();
    const reply = await (tries ? post(`/v1/leases/${kind}`, text) : share(kind, text));
    if (reply.status === 200) return sentAt;
    if (reply.status === 409) lose(held);
    else if (tries && isRefused(reply)) throw new PermanentError(`refused: ${reply.body.detail}`);
    else await backOff(reply, tries);
  }
  throw new LeaseLost();
}

/** Post once, together with all that is written in this turn: one request for many jobs. */
async function share(kind, text) {
  const flush = () => delete batches[kind] && post(`/v1/leases/${kind}`, `{"items":[${items}]}`);
  const { items, reply } = (batches[kind] ??= { items: [], reply: turn().then(flush) });
  const place = items.push(text) - 1;
  const answer = await reply;
  return answer.status === 200 ? answer.body.items[place] : answer;
}

/** Send a request once. Status 0: no reply came, and the outcome is unknown. */
async function post(path, body, seconds = PATIENCE) {
  const signal = AbortSignal.timeout(seconds * 1000);
  try {
    const got = await fetch(SERVER + path, { method: "POST", headers: HEADERS, body, signal });
    return { status: got.status, wait: got.headers.get("retry-after"), body: await got.json() };
  } catch {
    return { status: 0 };
  }
}

const lose = (held) => hand.delete(held) && held.end.abort(new LeaseLost());
const now = () => performance.now() / 1000;
const isRefused = ({ status }) => status >= 400 && status < 500 && status !== 408 && status !== 429;
const backOff = ({ wait }, tries) =>
  sleep((Number(wait) || Math.min(0.1 * 2 ** tries, 5)) * (750 + 500 * Math.random()));
const bodyOf = (job, name) =>
  job[`${name}_base64`] ? Buffer.from(job[`${name}_base64`], "base64") : job[name];
