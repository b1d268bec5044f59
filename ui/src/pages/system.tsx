// The doctor as a page, and what this server is.

import { useQuery } from "../api/query";
import { me } from "../api/session";
import type { AppLimit, Finding, Findings, Health } from "../api/types";
import { Command, Icon, Loading, Panel, Problem, Stale } from "../parts/basics";
import { Page } from "../parts/shell";
import { engineName, sentence, withoutCommand } from "../pure/format";

const LOOK: Record<Finding["level"], [string, string, string]> = {
  ok: ["check", "completed", "well"], note: ["info", "plain", "note"], warn: ["alert", "retrying", "warning"], fail: ["failed", "failed", "failure"],
};
const ORDER = ["fail", "warn", "note", "ok"];

export function System() {
  const doctor = useQuery<Findings>("v1/doctor", { every: 15, pace: 15 });
  const ready = useQuery<Health>("health/ready", { every: 5, pace: 5 });
  const limit = useQuery<AppLimit>("v1/limit", { every: 15, pace: 15 });
  const findings = [...(doctor.data?.findings ?? [])].sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));
  const known = me.value;
  const rows: [string, string | undefined][] = [
    ["State", ready.data?.status ?? ready.error?.message], ["Server", location.host], ["Version", known?.version], ["App", known?.app ?? undefined],
    ["Store", known && engineName(known.store.engine)],
    ["At once, in all", limit.data ? (limit.data.max_running === null ? "no limit" : String(limit.data.max_running)) : undefined],
  ];
  return (
    <Page title="System">
      <Stale error={doctor.error} at={doctor.at} />
      <div class="grid-21">
        <Panel title="Doctor" note={doctor.data && noteOf(findings)}>
          {!doctor.data ? (doctor.error ? <Problem error={doctor.error} /> : <Loading rows={5} />)
            : <ul>{findings.map((finding, index) => <FindingLine key={index} finding={finding} />)}</ul>}
        </Panel>
        <Panel title="This server"><dl class="kv body">{rows.filter(([, value]) => value).map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} is`} title={value}>{value}</dd>])}</dl>
          {known?.store.durability && <p class="body sm m topline">{sentence(known.store.durability)}.</p>}</Panel>
      </div>
    </Page>
  );
}

function noteOf(findings: Finding[]): string {
  const bad = findings.filter((each) => each.level === "warn" || each.level === "fail").length;
  return bad ? `${bad} to look at` : "nothing to look at";
}

function FindingLine({ finding }: { finding: Finding }) {
  const [icon, state, word] = LOOK[finding.level] ?? LOOK.note!;
  const command = /`(fencepost [^`]+)`/.exec(finding.text)?.[1];
  return (
    <li class="finding"><Icon name={icon} state={state} /><div class="stack8"><span><span class="vh">{word}: </span>{sentence(withoutCommand(finding.text))}</span>{command && <Command text={command} />}</div><code class="q no-phone">{finding.code}</code></li>
  );
}
