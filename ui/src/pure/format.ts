// Numbers and times as people read them. Durations are never negative.

const plain = new Intl.NumberFormat("en-US");

/** 8,214; from a million on 1.03 M. */
export function count(value: number): string {
  if (value < 1_000_000) return plain.format(value);
  const [size, unit] = value < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${(value / (size as number)).toFixed(2)} ${unit}`;
}

/** One job, two jobs. */
export function many(value: number, one: string, more = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** Two units, the smaller one only if there is some of it. */
function pair(value: number, size: number, unit: string, rest: (left: number) => string): string {
  const whole = `${Math.floor(value / size)} ${unit}`;
  return value % size ? `${whole} ${rest(value % size)}` : whole;
}

/** Words of the API as a sentence. */
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** 42 ms, 1.1 s, 38 s, 14 min 02 s, 3 h 05 min, 2 d 4 h. */
export function duration(seconds: number): string {
  const value = Math.max(0, seconds);
  if (value === 0) return "0 s";
  if (value < 0.0995) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(whole, 60, "min", (rest) => `${two(rest)} s`);
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return pair(minutes, 60, "h", (rest) => `${two(rest)} min`);
  return pair(Math.floor(minutes / 60), 24, "d", (rest) => `${rest} h`);
}

/** The largest unit alone, for columns: 47 s, 3 min, 5 h, 12 d. */
export function age(seconds: number): string {
  const value = Math.max(0, Math.floor(seconds));
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h`;
  return `${Math.floor(value / 86_400)} d`;
}

/** Seconds from one time to another, as the API writes times. */
export function between(from: string, to: string | number): number {
  return ((typeof to === "number" ? to : Date.parse(to)) - Date.parse(from)) / 1000;
}

const exactTime = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit", fractionalSecondDigits: 3, timeZoneName: "short",
});
const clockTime = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const fineTime = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 2,
});
const dayTime = new Intl.DateTimeFormat("en-GB", {
  day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit",
});

/** With date and zone, in the viewer's zone. */
export const exact = (at: string) => exactTime.format(new Date(at));
/** 02:58:13 */
export const clock = (at: string | number) => clockTime.format(new Date(at));
/** 02:58:13.25 */
export const fineClock = (at: number) => fineTime.format(new Date(at));
/** 17 Nov, 02:58 */
export const day = (at: string | number) => dayTime.format(new Date(at));

/** "12 s ago", "in 3 min"; beyond a day the date. */
export function relative(at: string, now: number): string {
  const seconds = between(at, now);
  if (Math.abs(seconds) >= 86_400) return day(at);
  if (seconds >= 0) return `${age(seconds)} ago`;
  return `in ${-seconds < 60 ? duration(Math.ceil(-seconds)) : age(-seconds)}`;
}

export const short = (id: string) => id.slice(0, 8);
const IDS = /\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;
/** A sentence whose ids of jobs are as short as elsewhere. */
export const shortIds = (text: string) => text.replace(IDS, "$1");

/** Of a share: 0.613 is 61 %. */
export function percent(share: number): string {
  if (share > 0 && share < 0.01) return "under 1 %";
  return `${Math.round(share * 100)} %`;
}

/** How many a minute: 4,812, 61, 4.6, 0.1. */
export function pace(aMinute: number): string {
  if (Number.isInteger(aMinute) || aMinute >= 10) return count(Math.round(aMinute));
  // A quarter is not 0.3: the lines of a chart would lie at uneven distances.
  return aMinute < 1 ? String(Number(aMinute.toPrecision(2))) : aMinute.toFixed(1);
}

/** Of a log scale: 10 ms, 100 ms, 1 s, 10 s. */
export const powerOfTen = (seconds: number) => (seconds < 0.999 ? `${count(Math.round(seconds * 1000))} ms` : `${count(Math.round(seconds))} s`);

/** A rate of jobs a second, in the unit in which it is a number one can read. */
export function rate(perSecond: number): string {
  const minute = perSecond * 60;
  if (minute >= 10 || minute === 0) return count(Math.round(minute));
  return minute.toFixed(1);
}

const ENGINES: Record<string, string> = {
  sqlite: "SQLite", postgresql: "PostgreSQL", redis: "Redis", memory: "In memory",
};
export const engineName = (engine: string) => ENGINES[engine] ?? engine;

/** What the doctor says, without the command at its end, which is shown beneath to be copied. */
export const withoutCommand = (text: string) => text.replace(/; [^;`]*`fencepost [^`]+`$/, "");

const STATE_NAMES: Record<string, string> = { dead_letter: "Dead letter" };

export function stateName(state: string): string {
  return STATE_NAMES[state] ?? state.charAt(0).toUpperCase() + state.slice(1);
}

export const PRIORITIES = ["critical", "high", "normal", "low", "bulk"];

export const STATES = [
  "pending", "scheduled", "delayed", "running", "retrying", "completed", "failed", "dead_letter",
  "cancelled",
] as const;
export const ENDED = new Set(["completed", "failed", "dead_letter", "cancelled"]);
