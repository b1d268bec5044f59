import { describe, expect, it } from "vitest";
import type { JobSummary } from "../src/api/types";
import { around, failures, noteOf, spanOf, stateOfFlow } from "../src/pure/flow-words";
import { graphOf } from "../src/pure/graph";
import { neighbours } from "../src/pure/neighbours";
import { waterfall } from "../src/pure/waterfall";

const NOW = Date.parse("2026-11-18T12:00:00Z");
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();
const job = (id: string, fields: Partial<JobSummary> = {}) => ({
  id, type: "t", state: "pending", attempt: 0, max_attempts: 3, created_at: at(-60), updated_at: at(-60), run_at: at(-60), started_at: null, completed_at: null, lease: null, failure: null, ...fields,
}) as JobSummary;
const edge = (from: string, to: string) => ({ from, to, mode: "all" as const });
const because = (id: string) => ({ category: "permanent", message: "it waited", failed_dependency: id }) as JobSummary["failure"];

// start → payment → receipt → crm; start → invoice (fails) → archive → index
const JOBS: Record<string, JobSummary> = {
  start: job("1", { state: "completed", started_at: at(-60), completed_at: at(-50) }),
  payment: job("2", { state: "running", attempt: 2, started_at: at(-30) }),
  receipt: job("3"),
  crm: job("4"),
  invoice: job("5", { state: "failed", attempt: 1, started_at: at(-40), completed_at: at(-35), failure: { category: "permanent", message: "no font", exception: "pdf.FontError" } as JobSummary["failure"] }),
  archive: job("6", { state: "failed", completed_at: at(-35), failure: because("5") }),
  index: job("7", { state: "dead_letter", completed_at: at(-35), failure: because("5") }),
};
const EDGES = [edge("start", "payment"), edge("payment", "receipt"), edge("receipt", "crm"), edge("start", "crm"), edge("start", "invoice"), edge("invoice", "archive"), edge("archive", "index")];

describe("a flow in words", () => {
  const notes = () => Object.fromEntries(graphOf(JOBS, EDGES).nodes.map((node) => [node.id, noteOf(node, JOBS, EDGES, NOW)]));
  it("says of each node what it does or waits for, and what ended it", () => {
    expect(notes()).toEqual({
      start: "10 s", payment: "attempt 2 of 3 · 30 s", receipt: "waits for payment", crm: "waits for receipt", invoice: "FontError", archive: "never ran: invoice", index: "never ran: invoice",
    });
  });
  it("names what failed by itself, with all that ended with it", () => {
    expect(failures(JOBS)).toEqual([{ name: "invoice", ended: ["archive", "index"] }]);
  });
  it("knows what waits for a node, at once or in turn", () => {
    expect(around(["payment"], EDGES)).toEqual({ after: ["start"], holdsUp: 2 });
    expect(around(["start"], EDGES)).toEqual({ after: [], holdsUp: 6 });
    expect(around(["a"], [edge("a", "b"), edge("b", "a")])).toEqual({ after: ["b"], holdsUp: 1 });
  });
  it("runs as long as one of its jobs may, and then is as bad as the worst", () => {
    const state = (...states: string[]) => stateOfFlow(states.map((each) => job("x", { state: each as JobSummary["state"] })));
    expect([state("failed", "running"), state("failed", "pending"), state("completed", "failed"), state("failed", "dead_letter"), state("completed", "cancelled")]).toEqual(["running", "pending", "failed", "dead_letter", "completed"]);
    expect(spanOf(Object.values(JOBS), NOW)).toEqual({ from: NOW - 60_000, to: NOW, isOver: false });
    expect(spanOf([JOBS.start!], NOW)).toEqual({ from: NOW - 60_000, to: NOW - 50_000, isOver: true });
  });
  it("marks the edges along which an end was passed on", () => {
    expect(graphOf(JOBS, EDGES).edges.filter((each) => each.isBlame).map((each) => each.to)).toEqual(["archive", "index"]);
  });
});

describe("a waterfall", () => {
  it("has a bar for what has begun, the first start first, within the whole", () => {
    const found = waterfall(graphOf(JOBS, EDGES).nodes, spanOf(Object.values(JOBS), NOW));
    expect(found.bars.map((bar) => [bar.id, Math.round(bar.from * 60), Math.round(bar.to * 60)])).toEqual([["start", 0, 10], ["invoice", 20, 25], ["payment", 30, 60]]);
    expect(found.ticks.map((tick) => tick.seconds)).toEqual([0, 10, 20, 30, 40, 50, 60]);
  });
  it("draws the first of many, and lasts for no time at all", () => {
    const nodes = Array.from({ length: 40 }, (_, index) => ({ id: `${index}`, names: [`${index}`], type: "t", state: "completed", jobs: [job("x", { started_at: at(0), completed_at: at(0) })] }));
    const found = waterfall(nodes, { from: NOW, to: NOW });
    expect([found.bars.length, found.hidden, found.bars.every((bar) => bar.to <= 1)]).toEqual([30, 10, true]);
  });
});

it("a node stands between what it waited for and what waits for it, of many the first three", () => {
  const edges = [edge("a", "own"), edge("b", "own"), edge("own", "z"), ...["1", "2", "3", "4", "5"].map((name) => edge("own", name)), edge("a", "b")];
  const [before, own, after] = neighbours(edges, "own");
  expect(before).toEqual({ names: ["a", "b"], hidden: 0, isOwn: false });
  expect(own!.isOwn).toBe(true);
  expect(after).toEqual({ names: ["z", "1", "2"], hidden: 3, isOwn: false });
});
