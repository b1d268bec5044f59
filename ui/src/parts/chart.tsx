// Charts by uPlot, which is loaded when the first one is shown.

import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { clock, day } from "../pure/format";
import { leading, powersAround } from "../pure/series";
import { isDark } from "../state/theme";

export type Line = { name: string; state: string; values: (number | null)[]; isDashed?: boolean };
type Props = {
  start: number; step: number; lines: Line[]; format: (value: number) => string; kind?: "area" | "bars" | "lines";
  isLog?: boolean; label: string;
  /** Numbers of the axis, if they are written in another way. */
  axis?: (value: number) => string;
  /** What is said of a point, from its values in the order of the lines; by default each with its name. */
  words?: (values: string[]) => string;
};

/** A line needs two points. */
const isPoint = (line: Line) => line.values.filter((value) => value !== null).length === 1;
const HEIGHT = 176;
/** Seconds between two times on the axis. */
const ROUND = [60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800];
const isPower = (value: number) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;

/** The colours of a state as the page computes them: a canvas knows no custom properties. */
function coloursOf(box: HTMLElement, state: string): { line: string; fill: string } {
  const probe = document.createElement("span");
  probe.className = `probe s-${state}`;
  box.append(probe);
  const style = getComputedStyle(probe);
  const found = { line: style.color, fill: style.backgroundColor };
  probe.remove();
  return found;
}

/** uPlot writes numbers in the browser's language, and cannot be used where that has a name which none has, as "C". */
function giveLanguage(): void {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
}

async function load(): Promise<typeof uPlot> {
  giveLanguage();
  const [module] = await Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]);
  return module.default;
}

function options(Plot: typeof uPlot, box: HTMLElement, props: Props, width: number): uPlot.Options {
  const axis = coloursOf(box, "axis");
  const bars = Plot.paths.bars!({ size: [0.8, 24] });
  const span = props.step * (props.lines[0]?.values.length ?? 0);
  const time = (at: number) => (span > 86_400 ? day(at * 1000) : clock(at * 1000).slice(0, 5));
  return {
    width, height: HEIGHT, padding: [8, 20, 0, 0], legend: { show: false }, cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { time: false, range: (_, low, high) => (props.kind === "bars" ? [low - props.step / 2, high + props.step / 2] : [low, high]) }, y: props.isLog ? { distr: 3, range: (_, low, high) => powersAround(low, high) } : { range: (_, __, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { stroke: axis.line, grid: { show: false }, ticks: { show: false }, size: 24, space: 72, incrs: ROUND, font: "11px Inter, system-ui, sans-serif", values: (_, at) => at.map(time) },
      { stroke: axis.line, grid: { stroke: axis.fill, width: 1, filter: (_, at) => at.map((value) => (props.isLog && !isPower(value) ? null : value)) }, ticks: { show: false }, size: props.isLog ? 48 : 36, space: 36, font: "11px Inter, system-ui, sans-serif",
        values: (_, at) => at.map((value) => (value === null ? "" : (props.axis ?? props.format)(value))) },
    ],
    series: [{}, ...props.lines.map((line): uPlot.Series => {
      const { line: stroke, fill } = coloursOf(box, line.state);
      if (props.kind === "bars") return { stroke, fill: stroke, width: 0, paths: bars, points: { show: false } };
      return { stroke, width: 1.5, fill: props.kind === "area" ? fill : undefined, dash: line.isDashed ? [4, 3] : undefined, points: { show: isPoint(line), size: 5, fill: stroke }, spanGaps: false };
    })],
  };
}

const dataOf = (props: Props): uPlot.AlignedData => {
  const length = props.lines[0]?.values.length ?? 0;
  const times = Array.from({ length }, (_, index) => props.start / 1000 + index * props.step);
  // A logarithm has no zero: what took no time at all is drawn at the bottom.
  const shown = props.lines.map((line) => line.values.map((value) => (props.isLog && value !== null ? Math.max(value, 0.001) : value)));
  return [times, ...shown];
};

/** Without the time before the store had anything to sample: it would be most of a new store's hour. */
function known(given: Props): Props {
  const cut = leading(given.lines.map((line) => line.values));
  if (!cut) return given;
  return { ...given, start: given.start + cut * given.step * 1000, lines: given.lines.map((line) => ({ ...line, values: line.values.slice(cut) })) };
}

export function Chart(given: Props) {
  const props = known(given);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [isFailed, setFailed] = useState(false);
  const shape = `${isDark.value} ${props.kind} ${props.lines.map((line) => line.name).join()} ${props.step} ${props.lines[0]?.values.length} ${props.lines.some(isPoint)}`;

  useEffect(() => {
    let isGone = false;
    const watch = new ResizeObserver(([entry]) => entry && plot.current?.setSize({ width: Math.floor(entry.contentRect.width), height: HEIGHT }));
    void load().then((Plot) => {
      if (isGone || !box.current) return;
      const made = options(Plot, box.current, props, box.current.clientWidth);
      made.hooks = { setCursor: [(u) => setAt(u.cursor.idx ?? null)] };
      plot.current = new Plot(made, dataOf(props), box.current);
      watch.observe(box.current);
    }).catch(() => setFailed(true)); // it cannot be loaded
    return () => {
      isGone = true;
      watch.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(props)), [given.lines, given.start]);

  const isEmpty = props.lines.every((line) => line.values.every((value) => !value));
  return (
    <figure class="chart" role="img" aria-label={props.label}>
      <div ref={box} class="plot" />
      {(isEmpty || isFailed) && <span class="none q sm">{isFailed ? "the chart cannot be drawn in this browser" : "nothing in this time"}</span>}
      <figcaption class="sm q">{wordsAt(props, at)}</figcaption>
    </figure>
  );
}

/** What the lines are at a point; where none is pointed at, at the last one that all know. */
function wordsAt(props: Props, at: number | null): string {
  const length = props.lines[0]?.values.length ?? 0;
  const last = Array.from({ length }, (_, index) => length - 1 - index).find((index) => props.lines.some((line) => line.values[index] != null));
  const place = at ?? last;
  if (place === undefined) return "\u00a0";
  const values = props.lines.map((line) => (line.values[place] == null ? "–" : props.format(line.values[place]!)));
  const words = props.words ?? (() => props.lines.map((line, index) => `${line.name} ${values[index]}`).join(" · "));
  return `${clock(props.start + place * props.step * 1000).slice(0, at === null ? 5 : 8)} · ${words(values)}`;
}
