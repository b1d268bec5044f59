// Lines of a chart as figures: the rate of the last minutes, and what is usual in the time before.

import type { Series } from "../api/types";

/** Seconds that count as now. */
const RECENT = 300;
/** Fewer points than this say nothing about what is usual. */
const POINTS_MIN = 10;

export const valuesOf = (series: Series | undefined, metric: string, name: string | null = null) =>
  series?.series.find((each) => each.metric === metric && each.name === name)?.values;

const recentLength = (series: Series) => Math.max(1, Math.round(RECENT / series.step));
const isKnown = (value: number | null): value is number => value !== null;

/** How many a minute, over the last five; undefined where nothing was sampled. */
export function perMinute(series: Series | undefined, metrics: string[], name: string | null = null): number | undefined {
  if (!series) return undefined;
  const length = recentLength(series);
  const found = metrics.map((metric) => (valuesOf(series, metric, name) ?? []).slice(-length).filter(isKnown));
  const known = found[0]!.length;
  return known ? found.flat().reduce((sum, value) => sum + value, 0) / ((known * series.step) / 60) : undefined;
}

export type Usual = { low: number; middle: number; high: number };

/** What a line usually is: between its tenth and its ninetieth percentile, before the last minutes. */
export function usual(series: Series | undefined, metric: string, isCount: boolean): Usual | null {
  const values = series && valuesOf(series, metric);
  if (!values) return null;
  const known = smooth(values.slice(0, -recentLength(series)).filter(isKnown), isCount ? recentLength(series) : 1);
  if (known.length < POINTS_MIN) return null;
  const ranked = [...known].sort((a, b) => a - b);
  const scale = isCount ? 60 / series.step : 1;
  const at = (share: number) => ranked[Math.min(ranked.length - 1, Math.floor(ranked.length * share))]! * scale;
  return { low: at(0.1), middle: at(0.5), high: at(0.9) };
}

/** Means over as many points as the figure beside it is taken over: a single point jumps further. */
function smooth(values: number[], length: number): number[] {
  if (length < 2) return values;
  return values.slice(length - 1).map((_, index) => values.slice(index, index + length).reduce((sum, value) => sum + value, 0) / length);
}

/** "usual 4,600 to 5,200", "usual 12"; bounds that are read as the same number are said once. */
export function usualWords(found: Usual | null, shown: (value: number) => string): string {
  if (!found) return "";
  const [low, high] = [shown(found.low), shown(found.high)];
  return low === high ? `usual ${low}` : `usual ${low} to ${high}`;
}

/** At least so many points are drawn, so that a store of a minute is not one dot. */
const DRAWN_MIN = 12;

/** How many points at the beginning of *lines* to leave out: those before anything was sampled, if they are most. */
export function leading(lines: (number | null)[][]): number {
  const length = Math.max(0, ...lines.map((line) => line.length));
  const firsts = lines.map((line) => line.findIndex(isKnown)).filter((first) => first >= 0);
  if (!firsts.length) return 0;
  const first = Math.min(...firsts, length - DRAWN_MIN);
  return first > length / 2 ? first : 0;
}

/**
 * The ends of an axis of seconds on a log scale: powers of ten, from 1 or 10 ms to a second or more.
 * From an end such as 9.7 ms, uPlot would count its ticks without end.
 */
export function powersAround(low: number | null, high: number | null): [number, number] {
  return [low !== null && low >= 0.01 ? 0.01 : 0.001, 10 ** Math.ceil(Math.log10(Math.max(high ?? 1, 1)))];
}
