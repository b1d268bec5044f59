import { describe, expect, it } from "vitest";
import { age, count, duration, pace, percent, rate, relative, sentence, shortIds, withoutCommand } from "../src/pure/format";
import { withTimes } from "../src/pure/words";

describe("numbers and times as people read them", () => {
  it.each([
    [0, "0 s"], [0.0004, "1 ms"], [0.042, "42 ms"], [0.0996, "0.1 s"], [1.14, "1.1 s"], [9.96, "10 s"], [38, "38 s"],
    [59.6, "1 min"], [842, "14 min 02 s"], [1800, "30 min"], [3599.7, "1 h"], [11_100, "3 h 05 min"], [187_200, "2 d 4 h"], [604_800, "7 d"],
    [-5, "0 s"],
  ])("%d seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([[0, "0"], [8214, "8,214"], [999_999, "999,999"], [1_030_000, "1.03 M"], [2.5e9, "2.50 G"]])("%d is %s", (value, text) => {
    expect(count(value)).toBe(text);
  });

  it("names only the largest unit in columns", () => {
    expect([0.4, 47, 200, 7200, 1e6].map(age)).toEqual(["0 s", "47 s", "3 min", "2 h", "11 d"]);
  });

  it("is relative up to a day, in both directions", () => {
    const now = Date.parse("2026-11-18T12:00:00Z");
    expect(relative("2026-11-18T11:59:48Z", now)).toBe("12 s ago");
    expect(relative("2026-11-18T12:00:30Z", now)).toBe("in 30 s");
    expect(relative("2026-11-18T15:00:00Z", now)).toBe("in 3 h");
    expect(relative("2026-11-10T15:00:00Z", now)).toMatch(/10 Nov/);
  });

  it("keeps small shares and rates readable", () => {
    expect([0, 0.004, 0.613, 1].map(percent)).toEqual(["0 %", "under 1 %", "61 %", "100 %"]);
    expect([0, 0.01, 80.2].map(rate)).toEqual(["0", "0.6", "4,812"]);
    expect([0, 0.05, 0.25, 1, 1.26, 12.4, 4812].map(pace)).toEqual(["0", "0.05", "0.25", "1", "1.3", "12", "4,812"]);
    expect(sentence("")).toBe("");
  });
});

it("sentences of the API have short ids, and no command that is shown beneath", () => {
  expect(shortIds("it waited for job 60594f31-0e70-427b-8a57-d0dc26c20c7f, which failed")).toBe("it waited for job 60594f31, which failed");
  expect(withoutCommand("no live worker serves it; start one with `fencepost worker APP`")).toBe("no live worker serves it");
  expect(withoutCommand("all is well")).toBe("all is well");
});

it("times in sentences of the API are told in the viewer's zone", () => {
  const now = Date.parse("2026-11-19T22:14:31Z");
  expect(withTimes("tried again at 2026-11-19 22:15:19 UTC (in 48.1s)", now)).toBe("tried again in 48 s");
  expect(withTimes("it ended at 2026-11-19 22:14:19 UTC", now)).toBe("it ended 12 s ago");
  expect(withTimes("due at 2026-11-29 22:15:19 UTC (in 10d)", now)).toMatch(/^due at 29 Nov, /);
  expect(withTimes("waits for a worker", now)).toBe("waits for a worker");
});
