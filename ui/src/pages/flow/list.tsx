// All flows, newest first; a page ends early when its flows have many jobs, and says where to go on.

import { useState } from "preact/hooks";
import { get } from "../../api/client";
import { useQuery } from "../../api/query";
import type { FlowPage, FlowSummary } from "../../api/types";
import { Act, Choice, Empty, Link, Loading, Panel, Problem, Stale, Time } from "../../parts/basics";
import { Page } from "../../parts/shell";
import { CountBar, countWords } from "../../parts/state-bar";
import { flowRows, stateCounts } from "../../pure/flows";
import { count, short } from "../../pure/format";
import { go, params, setParams } from "../../state/route";

const KINDS = { all: null, "under way": "live", failed: "failed" } as const;
type Kind = keyof typeof KINDS;
const NAMES = Object.keys(KINDS) as Kind[];

export function Flows() {
  const kind = NAMES.find((each) => KINDS[each] === params.value.get("kind")) ?? "all";
  const path = `v1/flows?limit=50${kind === "all" ? "" : `&kind=${KINDS[kind]}`}`;
  const read = useQuery<FlowPage>(path, { every: 5, pace: 2 });
  const [older, setOlder] = useState<{ path: string; pages: FlowPage[] }>({ path, pages: [] });
  const pages = older.path === path ? older.pages : [];
  const flows = flowRows([...(read.data ? [read.data] : []), ...pages]);
  const next = (pages.at(-1) ?? read.data)?.next ?? null;
  async function more(): Promise<void> {
    const page = await get<FlowPage>(`${path}&after=${encodeURIComponent(next!)}`);
    setOlder({ path, pages: [...pages, page] });
  }
  return (
    <Page title="Flows">
      <Stale error={read.error} at={read.at} />
      <Panel title="Flows" note="newest first" tools={<><OpenById /><Choice label="Which flows" options={NAMES} value={kind} onChange={(each) => setParams({ kind: KINDS[each] })} /></>}>
        {!read.data ? (read.error ? <Problem error={read.error} /> : <Loading rows={4} />) : !flows.length
          ? (next ? <Empty title="None among the newest flows">Older ones have not been looked at.</Empty>
            : <Empty title={kind === "all" ? "No flow yet" : kind === "failed" ? "No flow has failed" : "No flow is under way"}>A flow is jobs that wait for each other, stored in one transaction: app.flow(…).submit().</Empty>)
          : <table class="cards"><thead><tr><th>Flow</th><th>States</th><th class="n">Jobs</th><th class="n">Submitted</th><th class="n">Ended</th></tr></thead><tbody>
            {flows.map((flow) => <FlowRow key={flow.id} flow={flow} />)}
          </tbody></table>}
        {next && <div class="body"><Act kind="quiet" onClick={more}>Older flows</Act></div>}
      </Panel>
    </Page>
  );
}

function OpenById() {
  const [text, setText] = useState("");
  return (
    <form onSubmit={(event) => { event.preventDefault(); if (text.trim()) go(`flows/${encodeURIComponent(text.trim())}`); }}>
      <input class="inp small" aria-label="Id of a flow" placeholder="Open by id" value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </form>
  );
}

function FlowRow({ flow }: { flow: FlowSummary }) {
  const counts = stateCounts(flow.counts);
  const total = counts.reduce((sum, [, value]) => sum + value, 0);
  return (
    <tr>
      <td><Link to={`flows/${encodeURIComponent(flow.id)}`}><b>{flow.correlation_id ?? flow.type}</b> <span class="mono q">{short(flow.id)}</span></Link></td>
      <td class="sub"><span class="row"><CountBar counts={counts} /><span class="q sm tr" aria-hidden="true">{countWords(counts)}</span></span></td>
      <td class="n">{count(total)}{flow.is_complete === false && "+"}</td>
      <td class="n h"><Time at={flow.created_at} /></td>
      <td class="n h">{flow.is_live ? <span class="c s-running b sm">under way</span> : <Time at={flow.ended_at} />}</td>
    </tr>
  );
}
