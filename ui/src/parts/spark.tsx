// A line without axes: the shape of the last hour. A gap is a gap.

import { leading } from "../pure/series";

const WIDTH = 96;

export function Spark({ values: given, state = "plain", height = 20, label }: {
  values: (number | null)[]; state?: string; height?: number; label: string;
}) {
  const values = given.slice(leading([given]));
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const top = Math.max(...known, 1);
  const step = WIDTH / (values.length - 1);
  const y = (value: number) => height - 1 - (value / top) * (height - 3);
  let line = "";
  let isGap = true;
  values.forEach((value, index) => {
    if (value !== null) line += `${isGap ? "M" : "L"}${(index * step).toFixed(1)} ${y(value).toFixed(1)}`;
    isGap = value === null;
  });
  const hasGap = values.includes(null);
  return (
    <svg class={`spark s-${state}`} viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {!hasGap && <path class="tfill" d={`${line}L${WIDTH} ${height}L0 ${height}Z`} />}
      <path class="str" d={line} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

/** One bar an hour. */
export function Bars({ values, state, label }: { values: number[]; state: string; label: string }) {
  const top = Math.max(...values, 1);
  const width = 72 / values.length;
  return (
    <svg class={`spark s-${state}`} viewBox="0 0 72 20" preserveAspectRatio="none" role="img" aria-label={label}>
      {values.map((value, index) => {
        const height = value ? Math.max(2, (value / top) * 18) : 1;
        return <rect key={index} class={value ? "fill" : "base"} x={index * width} y={20 - height} width={width - 0.8} height={height} />;
      })}
    </svg>
  );
}
