// Who did what. A record never holds a payload or a secret.

import { useQuery } from "../api/query";
import type { ActionPage } from "../api/types";
import { Empty, Loading, Panel, Problem, Stale, Time } from "../parts/basics";
import { Page } from "../parts/shell";
import { actionWords, answerWords, detailWords } from "../pure/audit-words";
import { short } from "../pure/format";

const ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

export function Audit() {
  const read = useQuery<ActionPage>("v1/audit?limit=100", { every: 5, pace: 5 });
  const actions = read.data?.actions;
  return (
    <Page title="Audit">
      <Stale error={read.error} at={read.at} />
      <Panel title="Audit" note="newest first">
        {!actions ? (read.error ? <Problem error={read.error} /> : <Loading rows={6} />) : !actions.length
          ? <Empty title="Nobody has done anything yet">Each cancel, retry, pause, limit, replay and change of tokens is recorded here, and so is each that was refused.</Empty>
          : <div class="scroll"><table class="cards"><thead><tr><th>When</th><th>Who</th><th>What</th><th>To</th><th>With</th><th class="n">Answer</th></tr></thead><tbody>
            {actions.map((action) => (
              <tr key={action.id}>
                <td class="h"><Time at={action.at} /></td><td><b>{action.principal}</b> <span class="only-phone q sm"><Time at={action.at} /></span></td><td title={action.action}>{actionWords(action.action)}</td>
                <td class="sub mono tr short" title={action.target}>{ID.test(action.target) ? short(action.target) : action.target}</td>
                <td class="sub wrapok q sm">{detailWords(action.detail)}</td>
                <td class={`n ${(action.status ?? 200) >= 400 ? "sub c s-failed b" : "h"}`} title={action.status ? `HTTP ${action.status}` : "on the command line"}>{answerWords(action.status)}</td>
              </tr>
            ))}
          </tbody></table></div>}
      </Panel>
    </Page>
  );
}
