import { describe, expect, it } from "vitest";
import type { Attempt, DeadLetter, Group, JobSummary, QueueView, WorkerInfo } from "../src/api/types";
import { attention, titleOf } from "../src/pure/attention";
import { isCounted, isLooked, isOldestFirst, jobsQuery, readFilter, readText, selecting, selectionBody, timeOf, withCondition, writeFilter } from "../src/pure/filter";
import { criticalPath, graphOf, GROUPED_FROM, states } from "../src/pure/graph";
import { flowRows, stateCounts } from "../src/pure/flows";
import { isOf } from "../src/pure/groups";
import { append, merge, NO_ROWS } from "../src/pure/rows";
import { snippets } from "../src/pure/snippets";
import { eventReader } from "../src/pure/sse";
import { scale, timeline } from "../src/pure/timeline";
import { ownFrame, traceLines } from "../src/pure/trace";
import { isObject, progressWords, replayBody, replayWords } from "../src/pure/replays";
import { doing, pausedBy } from "../src/pure/words";

const NOW = Date.parse("2026-11-18T12:00:00Z");
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();

function job(fields: Partial<JobSummary> = {}): JobSummary {
  return {
    id: "a", type: "t", queue: "q", priority: 2, state: "scheduled", attempt: 0, max_attempts: 3, created_at: at(-60), updated_at: at(-60), run_at: at(-60),
    expires_at: at(9999), scheduled_at: at(-60), started_at: null, completed_at: null, lease: null, lease_version: 0, failure: null, progress: null, key: null,
    tags: {}, correlation_id: null, replay_of: null, callback_url: null, flow: null, node: null, concurrency_key: null, ...fields,
  } as JobSummary;
}

describe("a list of flows", () => {
  const flow = (id: string, jobs = 1) => ({ id, type: "t", correlation_id: null, counts: { completed: jobs }, created_at: at(-9), is_live: false });
  it("has each flow once, as it was read last, newest first", () => {
    const rows = flowRows([{ flows: [flow("c"), flow("b", 5)], next: "x" }, { flows: [flow("b"), flow("a")], next: null }]);
    expect(rows.map((row) => [row.id, row.counts.completed])).toEqual([["c", 1], ["b", 5], ["a", 1]]);
  });
  it("counts states in the order of a job's life, without zeros", () => {
    expect(stateCounts({ failed: 2, pending: 1, completed: 0 })).toEqual([["pending", 1], ["failed", 2]]);
  });
});

describe("a pause", () => {
  it("says by whom and when, as far as that is known", () => {
    const pause = { kind: "queue" as const, name: "mail" };
    expect(pausedBy(undefined, NOW)).toBe("");
    expect(pausedBy({ ...pause, by: null, at: null }, NOW)).toBe("");
    expect(pausedBy({ ...pause, by: "ops", at: at(-120) }, NOW)).toBe(" by ops, 2 min ago");
  });
});

describe("the filter", () => {
  it("is the address, there and back", () => {
    const search = "?state=running&state=retrying&queue=a%26b&tag=x%3Ay%3Az";
    expect(writeFilter(readFilter(search))).toBe(search);
    expect(readFilter("?theme=dark&queue=&nope=1")).toEqual([]);
  });
  it.each([
    ["queue:mail", { field: "queue", value: "mail" }], ["tenant:7", { field: "tag", value: "tenant:7" }], ["7c1e4b0a", { field: "id", value: "7c1e4b0a" }],
    ["send_mail", { field: "type", value: "send_mail" }], ["queue:", null], ["  ", null],
    ["payload.user.id:42", { field: "where", value: "payload.user.id=42" }], ["payload.n >= 5", { field: "where", value: "payload.n>=5" }],
    ["result:a:b", { field: "where", value: "result=a:b" }], ["payload.a:", null], ["payloads:1", { field: "tag", value: "payloads:1" }],
    ["error:timed out", { field: "error", value: "timed out" }], ["key:a:b", { field: "key", value: "a:b" }], ["constructor:x", { field: "tag", value: "constructor:x" }],
  ])("reads %s", (text, condition) => expect(readText(text)).toEqual(condition));
  it("replaces what can have one value, and adds to what can have several", () => {
    const one = withCondition([{ field: "queue", value: "a" }, { field: "state", value: "running" }], { field: "queue", value: "b" });
    expect(one).toEqual([{ field: "state", value: "running" }, { field: "queue", value: "b" }]);
    expect(withCondition(one, { field: "state", value: "failed" })).toHaveLength(3);
    expect(withCondition(one, { field: "state", value: "running" })).toHaveLength(2);
  });
  it("reads times", () => {
    expect(timeOf("15m", NOW)).toBe(at(-900));
    expect(timeOf("2026-11-18T12:00:00Z", NOW)).toBe(at(0));
    expect(timeOf("soon", NOW)).toBeNull();
    expect(jobsQuery([{ field: "since", value: "1h" }], NOW).get("created_after")).toBe(at(-3600));
  });
  it("knows what is costly, and what only sorts", () => {
    const conditions = readFilter("?order=oldest&queue=a");
    expect([isLooked(conditions), isOldestFirst(conditions), isCounted(selecting(conditions))]).toEqual([false, true, true]);
    expect(isLooked(readFilter("?where=payload.a%3D1"))).toBe(true);
    expect(selectionBody(conditions, NOW)).toEqual({ queue: "a" });
    expect(jobsQuery(conditions, NOW).get("order")).toBe("oldest");
    expect(selectionBody(readFilter("?priority=high&priority=low&where=payload.a%3D1&error=x"), NOW))
      .toEqual({ priorities: ["high", "low"], where: ["payload.a=1"], error: "x" });
  });
  it("becomes the body of a selection", () => {
    expect(selectionBody(readFilter("?state=running&tag=a%253Ab%3Ac&id=7c"), NOW)).toEqual({ state: ["running"], id_prefix: "7c", tags: { "a:b": "c" } });
  });
});

describe("rows that do not move", () => {
  const row = (id: string, second: number) => ({ id, created_at: at(second) });
  const shown = merge(NO_ROWS, [row("b", 2), row("a", 1)], true);
  it("are replaced where nobody looks", () => expect(merge(shown, [row("c", 3)], false).shown.map((each) => each.id)).toEqual(["c"]));
  it("count what is new, and dim what is gone", () => {
    const held = merge(shown, [row("c", 3), row("a", 1)], true);
    expect(held.shown.map((each) => each.id)).toEqual(["b", "a"]);
    expect([held.fresh, held.isMore, [...held.gone]]).toEqual([1, false, ["b"]]);
  });
  it("dim what is gone in either order", () => {
    const oldest = merge(NO_ROWS, [row("a", 1), row("b", 2), row("c", 3)], true);
    expect([...merge(oldest, [row("b", 2)], true, true).gone]).toEqual(["a"]);
  });
  it("are not doubled by the next page", () => expect(append(shown, [row("a", 1), row("z", 0)]).shown.map((each) => each.id)).toEqual(["b", "a", "z"]));
});

describe("server-sent events", () => {
  it("are read however they are cut", () => {
    const text = ': hello\n\nid: 7\nevent: job\ndata: {"a":1}\n\nid: 8\n\ndata: x\ndata: y\n\n';
    for (const size of [1, 3, 1000]) {
      const read = eventReader();
      const found = [];
      for (let from = 0; from < text.length; from += size) found.push(...read(text.slice(from, from + size)));
      expect(found).toEqual([{ type: "job", data: '{"a":1}', id: "7" }, { type: "message", data: "", id: "8" }, { type: "message", data: "x\ny", id: null }]);
    }
  });
});

describe("tracebacks", () => {
  const text = 'Traceback (most recent call last):\n  File "/x/site-packages/lib.py", line 1, in a\n    a()\n  File "/srv/shop/pay.py", line 88, in b\n    raise E\nshop.E: no\n';
  it("have own frames and others", () => {
    expect(traceLines(text).map((line) => line.kind)).toEqual(["library", "library", "library", "own", "own", "error"]);
    expect(ownFrame(text)).toEqual({ file: "/srv/shop/pay.py", line: 88, name: "b" });
    expect(ownFrame(null)).toBeNull();
    const theirs = 'Traceback (most recent call last):\n  File "/x/site-packages/a.py", line 1, in a\n    b()\n  File "/x/site-packages/b.py", line 2, in b\n    raise E\nE: no';
    expect(traceLines(theirs).map((line) => line.kind)).toEqual(["library", "library", "library", "own", "own", "error"]);
    expect(traceLines("E: no frame").map((line) => line.kind)).toEqual(["library"]);
  });
  it("tell of which group a dead letter is", () => {
    const letter = (type: string, id: string) => ({ job_id: id, type, queue: "q", state: "dead_letter", attempts: 1, completed_at: at(-10), failure: { category: "permanent", message: "no", exception: "shop.E", traceback: text } }) as DeadLetter;
    const group = { type: "a", exception: "shop.E", frame: "shop/pay.py:88 in b" } as Group;
    expect(isOf(letter("a", "9"), group)).toBe(true);
    expect(isOf(letter("b", "9"), group)).toBe(false);
    expect(isOf(letter("a", "9"), { ...group, frame: "shop/pay.py:89 in b" })).toBe(false);
  });
});

describe("what a job is doing", () => {
  it.each([
    [job(), "ready since 1 min"],
    [job({ state: "running", lease: { worker: "w", version: 1, expires_at: at(23), expired: false } }), "w · lease 23 s"],
    [job({ state: "running", lease: { worker: "w", version: 1, expires_at: at(-4), expired: true } }), "w · lease ended 4.0 s ago"],
    [job({ state: "retrying", run_at: at(12), failure: { category: "temporary", message: "late", exception: "a.b.Slow" } as never }), "next in 12 s · Slow: late"],
    [job({ state: "pending", concurrency_key: "k" }), "held up by its key, k"],
    [job({ state: "completed", attempt: 2, started_at: at(-2), completed_at: at(-1) }), "ran 1.0 s, on attempt 2"],
  ])("is said in words (%#)", (given, words) => expect(doing(given, NOW)).toBe(words));
});

describe("the timeline", () => {
  const attempt = (number: number, from: number, to: number | null, outcome: string) =>
    ({ id: String(number), job_id: "a", previous_id: null, number, lease_version: number, worker: "w", outcome, started_at: at(from), ended_at: to === null ? null : at(to), failure: null }) as Attempt;
  it("has a lane a fence, and waits between them", () => {
    const drawn = timeline({
      job: job({ state: "running", attempt: 2 }), attempts: [attempt(1, -50, -40, "failed"), attempt(2, -10, null, "running")],
      refusals: [{ at: at(-5), operation: "ack", worker: "w", fence_held: 1, fence_present: 2 }], now: NOW, left: 100, right: 700,
    });
    expect(drawn.lanes.map((lane) => [lane.fence, lane.end, lane.refusals.length])).toEqual([[1, "failed", 1], [2, null, 0]]);
    expect(drawn.waits.map((wait) => wait.state)).toEqual(["scheduled", "retrying"]);
    expect([drawn.lanes[1]!.to, drawn.now, drawn.last]).toEqual([700, 700, null]);
  });
  it("shows what is too short to see, and never leaves its room", () => {
    const { place, isWidened } = scale([0, 5, 86_400_000], 0, 600);
    expect(isWidened).toBe(true);
    expect(place(5)).toBeGreaterThan(20);
    expect([place(-1), place(86_400_000), place(9e9)]).toEqual([0, 600, 600]);
    expect(scale([7], 10, 600).place(7)).toBe(10);
  });
  it("draws the last attempts of many", () => {
    const many = Array.from({ length: 30 }, (_, index) => attempt(index + 1, -60 + index, -59.5 + index, "failed"));
    const drawn = timeline({ job: job({ state: "dead_letter", completed_at: at(-29) }), attempts: many, refusals: [], now: NOW, left: 0, right: 500 });
    expect([drawn.lanes.length, drawn.hidden, drawn.lanes[0]!.fence, drawn.last?.state]).toEqual([8, 22, 23, "dead_letter"]);
  });
});

describe("a flow", () => {
  const edge = (from: string, to: string) => ({ from, to, mode: "all" as const });
  const ran = (from: number, to: number) => job({ state: "completed", started_at: at(from), completed_at: at(to) });
  it("has a critical path by run time", () => {
    const jobs = { a: ran(-60, -50), b: ran(-50, -10), c: ran(-50, -45), d: ran(-10, 0) };
    const edges = [edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d")];
    expect([...criticalPath(jobs, edges)].sort()).toEqual([["a", "b"], ["b", "d"]]);
    expect(graphOf(jobs, edges).edges.filter((edge) => edge.isCritical)).toHaveLength(2);
    expect(states(Object.values(jobs))).toEqual([["completed", 4]]);
  });
  it("draws equal siblings as one, and survives a cycle and strangers", () => {
    const jobs = Object.fromEntries([["start", job()], ...Array.from({ length: GROUPED_FROM }, (_, index) => [`n${index}`, job({ type: "leaf" })])]) as Record<string, JobSummary>;
    const edges = Object.keys(jobs).slice(1).map((name) => edge("start", name));
    const graph = graphOf(jobs, [...edges, edge("start", "gone")]);
    expect([graph.nodes.length, graph.edges.length, graph.nodes[1]!.names.length]).toEqual([2, 1, GROUPED_FROM]);
    expect(criticalPath({ a: job(), b: job() }, [edge("a", "b"), edge("b", "a")]).size).toBe(0);
  });
});

describe("what needs somebody", () => {
  const worker = { id: "w", host: "h", pid: 1, queues: { mail: 1 }, types: ["send"], concurrency: 1, started_at: at(-99), seen_at: at(-1) } as WorkerInfo;
  const queue = (fields: Partial<QueueView>): QueueView => ({ name: "mail", counts: { scheduled: 2 }, claimable: { send: 2 }, ...fields });
  it("is a queue without a worker, a silent worker, and a pause", () => {
    expect(attention([queue({})], [worker], NOW)).toEqual([]);
    expect(attention([queue({ name: "media" })], [worker], NOW)[0]).toMatchObject({ code: "no_worker", level: "now", count: 2 });
    expect(attention([], [{ ...worker, seen_at: at(-60) }], NOW)[0]).toMatchObject({ code: "worker_silent" });
    expect(attention([queue({ is_paused: true })], [], NOW).map((item) => item.code)).toEqual(["paused"]);
  });
  it("has a title that says something, also of a group, whose name is a number", () => {
    const item = { code: "dead_letters_rising", level: "now" as const, since: null, count: 5, target: { kind: "group" as const, name: "71d1ffe9809b4780" }, text: "" };
    expect(titleOf(item)).toBe("5 dead letters within an hour");
    expect(titleOf({ ...item, text: "5 jobs of type 'sync_crm' died of TimeoutError within an hour" })).toBe("sync_crm: 5 dead letters within an hour");
    expect(attention([queue({ name: "media" })], [worker], NOW).map(titleOf)).toEqual(["Queue media has no worker"]);
  });
});

it("commands to copy quote what they are given", () => {
  const made = snippets("a'b$(x)", "http://h/");
  expect(made.CLI).toBe(`fencepost jobs show 'a'\\''b$(x)'`);
  expect(made.Python).toBe(`app.jobs.get("a'b$(x)")`);
});

describe("replays", () => {
  const replay = {
    id: "1", state: "stopped_by_rule" as const, started_by: "ann", started_at: "", ended_at: null, type: null, queue: null, group: null, since: null,
    until: null, patched: [], sample: null, rate: 2, stop_above: 0.2, stop_after: 10, stop_failures: null, total: 1200, is_total_known: false,
    replayed: 3, skipped: { duplicate: 1, other: 2 }, completed: 1, failed: 2, open: 0, left: 5,
  };

  it("are told in words", () => {
    expect(replayWords(replay)).toBe("stopped by its rule, 2 a second, stops above 20 % failed");
    expect(progressWords(replay)).toBe("3 of 1,200 or more replayed; 1 skipped: another job holds the key; 2 skipped: other; 2 failed again; 1 completed; 5 left");
  });

  it("keep the digits of a patch", () => {
    expect(replayBody({ rate: 1 }, ' {"a": 9007199254740993} ')).toBe('{"rate":1,"patch":{"a": 9007199254740993}}');
    expect(replayBody({ rate: 1 }, " ")).toBe('{"rate":1}');
    expect([isObject('{"a":1}'), isObject("[1]"), isObject('{"a":')]).toEqual([true, false, false]);
  });
});
