// How many are in which state, as a bar; the words beside or behind it say the same.

import { count, stateName } from "../pure/format";
import { Glyph } from "./basics";

type Counts = [string, number][];

export const countWords = (counts: Counts) => counts.map(([state, value]) => `${count(value)} ${stateName(state).toLowerCase()}`).join(", ");

export function CountBar({ counts, isWide = false }: { counts: Counts; isWide?: boolean }) {
  let x = 0;
  const total = counts.reduce((sum, [, value]) => sum + value, 0);
  return (
    <svg class={`statebar ${isWide ? "wide" : ""}`} viewBox="0 0 1000 8" preserveAspectRatio="none" role="img" aria-label={countWords(counts)}>
      <title>{countWords(counts)}</title>
      {counts.map(([state, value]) => {
        const width = (value / Math.max(total, 1)) * 1000;
        x += width;
        return <rect key={state} class={`fill s-${state}`} x={x - width} width={Math.max(width - 2, 2)} height="8" />;
      })}
    </svg>
  );
}

export function StateLegend({ counts }: { counts: Counts }) {
  return (
    <div class="facts">
      {counts.map(([state, value]) => (
        <span key={state} class={`row c s-${state}`}><Glyph state={state} />{count(value)} {stateName(state).toLowerCase()}</span>
      ))}
    </div>
  );
}
