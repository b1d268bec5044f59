import { describe, expect, it } from "vitest";
import type { Group, HeldLease, Series, WorkerInfo } from "../src/api/types";
import { actionWords, answerWords, detailWords } from "../src/pure/audit-words";
import { patched } from "../src/pure/diff";
import { worstFirst } from "../src/pure/groups";
import { parseExact } from "../src/pure/json";
import { isRate, rateText, rateWords } from "../src/pure/rates";
import { shortest } from "../src/pure/leases";
import { leading, perMinute, powersAround, usual, usualWords } from "../src/pure/series";
import { weightOf } from "../src/pure/weights";
import { usualVersion, workerNotes } from "../src/pure/worker-notes";

const series = (values: (number | null)[], step = 30, name: string | null = null) => ({ at: "", start: "", step, series: [{ metric: "completed", name, values }] }) as Series;

describe("figures of a series", () => {
  it("are the rate of the last five minutes, without what was not sampled", () => {
    expect(perMinute(series([...Array(20).fill(100), ...Array(10).fill(6)]), ["completed"])).toBe(12);
    expect(perMinute(series([...Array(20).fill(100), null, null, ...Array(8).fill(6)]), ["completed"])).toBe(12);
    expect(perMinute(series(Array(10).fill(null)), ["completed"])).toBeUndefined();
    expect(perMinute(series(Array(10).fill(6), 30, "mail"), ["completed"], "mail")).toBe(12);
    expect(perMinute(undefined, ["completed"])).toBeUndefined();
  });
  it("have a usual range, which the last minutes do not move", () => {
    const calm = Array(110).fill(5);
    expect(usual(series([...calm, ...Array(10).fill(900)]), "completed", true)).toEqual({ low: 10, middle: 10, high: 10 });
    expect(usual(series(Array(15).fill(5)), "completed", true)).toBeNull();
    expect(usual(series(calm), "wait_p99", false)).toBeNull();
    const words = (low: number, high: number) => usualWords({ low, middle: low, high }, String);
    expect([words(1, 2), words(3, 3), usualWords(null, String)]).toEqual(["usual 1 to 2", "usual 3", ""]);
  });
});

it("a chart of a new store begins with the store, and has room for some minutes", () => {
  const line = (unknown: number, known: number) => [...Array(unknown).fill(null), ...Array(known).fill(1)];
  expect(leading([line(90, 30), line(80, 40)])).toBe(80);
  expect(leading([line(119, 1)])).toBe(108);
  expect(leading([line(60, 60)])).toBe(0);
  expect([leading([]), leading([line(120, 0)]), leading([line(5, 5)])]).toEqual([0, 0, 0]);
});

it("a log scale ends at powers of ten, whatever is shown", () => {
  expect(powersAround(0.0097, 0.4)).toEqual([0.001, 1]);
  expect(powersAround(0.02, 3)).toEqual([0.01, 10]);
  expect(powersAround(0.0001, 1000)).toEqual([0.001, 1000]);
  expect(powersAround(null, null)).toEqual([0.001, 1]);
});

describe("a patch on a payload", () => {
  const shown = (payload: string, patch: string) => patched(parseExact(payload), patch)?.map((line) => `${{ same: " ", del: "-", add: "+" }[line.kind]}${line.text}`);
  it("shows what is replaced and added, digit by digit", () => {
    expect(shown('{"a":9007199254740993,"b":[1]}', '{"a":1,"c":null}')).toEqual([" {", '-  "a": 9007199254740993', '+  "a": 1', '   "b": [1]', '+  "c": null', " }"]);
    expect(shown('{"a":1}', '{"a": 1}')).toEqual([" {", '   "a": 1', " }"]);
    expect(shown('{"a":1}', "")).toEqual([" {", '   "a": 1', " }"]);
  });
  it("is none where the payload is no object, or the patch is not one yet", () => {
    expect([shown("[1]", "{}"), shown('{"a":1}', '{"a"'), shown('{"a":1}', "[1]")]).toEqual([undefined, undefined, undefined]);
  });
});

it("a record of the audit log is said in words", () => {
  expect(detailWords({ max_running: 24, roles: ["read", "operate"], queues: null, note: "", dry_run: true })).toBe("max_running 24; roles read, operate; dry_run");
  expect(detailWords(undefined)).toBe("");
  expect(detailWords({ refused: "forbidden", why: "token 'a' lacks role operate" })).toBe("token 'a' lacks role operate");
  expect([null, 201, 403, 409, 422, 503].map(answerWords)).toEqual(["done", "done", "refused", "conflict", "refused, 422", "failed, 503"]);
});

it("a weight is that of the workers, as far as they agree", () => {
  const worker = (queues: Record<string, number> | null) => ({ queues }) as WorkerInfo;
  expect(weightOf("mail", [worker({ mail: 3 }), worker({ other: 2 })])).toBe("3");
  expect(weightOf("mail", [worker({ mail: 3 }), worker(null)])).toBe("1 to 3");
  expect(weightOf("mail", [worker({ other: 2 })])).toBe("–");
});

it("a worker has a note where it differs from the others", () => {
  const worker = (version: string | null, fields: Partial<WorkerInfo> = {}) => ({ version, ...fields }) as WorkerInfo;
  const usualOne = usualVersion([worker("a"), worker("a"), worker("b"), worker(null)]);
  expect([usualOne, usualVersion([worker("a"), worker(null)])]).toEqual(["a", null]);
  const notes = (each: WorkerInfo, late = 0, isLagging = false) => workerNotes(each, { late, usual: usualOne, isLagging });
  expect(notes(worker("b", { is_leader: true }), 2, true)).toEqual(["2 leases ended and not recovered", "its event loop lags", "not the version that most run", "leader"]);
  expect([notes(worker("a")), notes(worker(null))]).toEqual([[], []]);
});

it("groups of dead letters begin with what rises, then with the largest", () => {
  const group = (id: string, count: number, is_rising = false) => ({ id, count, is_rising }) as Group;
  expect(worstFirst([group("a", 1), group("b", 9), group("c", 2, true)]).map((each) => each.id)).toEqual(["c", "b", "a"]);
});

it("an action of the audit log is a verb and what it was done to", () => {
  expect(["queue.pause", "app.limit", "dead_letters.replay", "cron.run", "new.thing"].map(actionWords))
    .toEqual(["paused queue", "limited all queues", "replayed dead letters", "ran cron", "new.thing"]);
});

it("a rate is read back as it is written", () => {
  const rates = [{ count: 100, window: 60 }, { count: 10, window: 30 }, { count: 5000, window: 3600 }];
  expect(rates.map(rateText)).toEqual(["100/m", "10/30s", "5000/h"]);
  expect(rates.map(rateWords)).toEqual(["100 a minute", "10 in 30 s", "5,000 an hour"]);
  expect(["100/m", " 10 / 30s ", "often", "/m", "5/"].map(isRate)).toEqual([true, true, false, false, false]);
});

it("the shortest lease is as long as it was when it was read", () => {
  const lease = (second: number, is_expired = false) => ({ expires_at: `2026-11-18T12:00:${second}Z`, is_expired }) as HeldLease;
  const at = Date.parse("2026-11-18T12:00:30Z");
  expect(shortest([lease(50), lease(41), lease(20, true)], at)).toEqual({ lease: lease(41), left: 11 });
  expect(shortest([lease(29)], at)?.left).toBe(0);
  expect(shortest([lease(20, true)], at)).toBeNull();
});
