// What took the time: a bar for each node. Positions are set through the CSSOM, as the policy demands.

import { Panel } from "../../parts/basics";
import { duration } from "../../pure/format";
import type { Graph } from "../../pure/graph";
import { waterfall } from "../../pure/waterfall";

const share = (value: number) => `${(value * 100).toFixed(2)}%`;

export function WaterfallPanel({ graph, span }: { graph: Graph; span: { from: number; to: number } }) {
  const { bars, ticks, hidden } = waterfall(graph.nodes, span);
  if (!bars.length) return null;
  const seconds = (span.to - span.from) / 1000;
  return (
    <Panel title="Waterfall" note="what took the time">
      <div class="waterfall">
        {bars.map((bar) => [
          <span class="tr sm" key={bar.id} title={bar.title}>{bar.title}</span>,
          <div class="track" key={`${bar.id} bar`} title={duration((bar.to - bar.from) * seconds)}>
            {ticks.map((tick) => <i key={tick.at} style={{ left: share(tick.at) }} />)}
            <b class={`s-${bar.state}`} style={{ left: share(bar.from), width: share(bar.to - bar.from) }} />
          </div>,
        ])}
        <span />
        <div class="track axis q">{ticks.map((tick) => <span key={tick.at} style={{ left: share(tick.at) }}>{duration(tick.seconds)}</span>)}</div>
      </div>
      {hidden > 0 && <div class="foot">{hidden} more that began later</div>}
    </Panel>
  );
}
