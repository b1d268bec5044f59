// The states with counts of the whole store, as navigation: counters, not counts of the filter.

import type { QueueView } from "../../api/types";
import { Glyph, Link } from "../../parts/basics";
import { count, STATES, stateName } from "../../pure/format";
import { type Condition, writeFilter } from "../../pure/filter";

export function StatesNav({ queues, conditions }: { queues: QueueView[] | null; conditions: Condition[] }) {
  const rest = conditions.filter(({ field }) => field !== "state");
  const chosen = conditions.filter(({ field }) => field === "state").map(({ value }) => value);
  const sum = (state: string) => (queues ?? []).reduce((total, queue) => total + (queue.counts?.[state] ?? 0), 0);
  const shown = (value: number) => (queues === null ? "–" : count(value));
  const all = STATES.reduce((total, state) => total + sum(state), 0);
  return (
    <nav class="panel states" aria-label="Jobs by state">
      <Link to={`jobs${writeFilter(rest)}`} class="s-plain" aria-current={chosen.length ? undefined : "page"}>
        <span class="k">All</span>
        <span class="v">{shown(all)}</span>
      </Link>
      {STATES.map((state) => (
        <Link key={state} class={`s-${state}`} aria-current={chosen.includes(state) ? "page" : undefined}
          to={`jobs${writeFilter([...rest, { field: "state", value: state }])}`}>
          <span class="k"><Glyph state={state} />{stateName(state)}</span>
          <span class="v">{shown(sum(state))}</span>
        </Link>
      ))}
    </nav>
  );
}
