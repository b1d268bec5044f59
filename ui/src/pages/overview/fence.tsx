// The fence in numbers: who holds what, and what was refused.

import { useQuery } from "../../api/query";
import type { HeldLeases, QueueView, Statistics } from "../../api/types";
import { Panel } from "../../parts/basics";
import { count, duration } from "../../pure/format";
import { shortest } from "../../pure/leases";
import { serverTime } from "../../state/clock";

export function FencePanel({ queues, stats }: { queues: QueueView[] | null; stats: Statistics | undefined }) {
  const leases = useQuery<HeldLeases>("v1/leases?limit=200", { every: 5, pace: 3 });
  const held = (queues ?? []).reduce((sum, queue) => sum + (queue.counts?.running ?? 0), 0);
  const refused = (stats as { refused?: number } | undefined)?.refused;
  const known = leases.data?.leases;
  const expired = known?.filter((lease) => lease.is_expired).length ?? 0;
  const next = known && shortest(known, serverTime(leases.at));
  return (
    <Panel title="Fence">
      <div class="fence4">
        <div><div class="sm m">Leases held</div><div class="v">{queues ? count(held) : "–"}</div><div class="sm q">one a job, never two</div></div>
        {known && <div><div class="sm m">Ended, not recovered</div><div class={`v ${expired ? "c s-retrying" : ""}`}>{count(expired)}</div><div class="sm q">claims take them back</div></div>}
        {known && <div><div class="sm m">Shortest lease</div><div class="v">{next ? duration(next.left) : "–"}</div><div class="sm q tr">{next?.lease.worker ?? "nobody runs"}</div></div>}
        {refused !== undefined && <div><div class="sm m">Stale writes refused</div><div class={`v ${refused ? "c s-refused" : ""}`}>{count(refused)}</div><div class="sm q">none changed anything</div></div>}
      </div>
    </Panel>
  );
}
