// What stands beside the timeline: why, the rules, the data, the flow, and commands to copy.

import { useState } from "preact/hooks";
import { BASE } from "../../api/root";
import { useQuery } from "../../api/query";
import type { Check, FlowView, JobView, Reason } from "../../api/types";
import { Choice, CopyButton, Glyph, Icon, Link, Loading, Panel } from "../../parts/basics";
import { JsonTree } from "../../parts/json-tree";
import { duration, ENDED, exact, percent, sentence, short, shortIds, withoutCommand } from "../../pure/format";
import { field, type Json } from "../../pure/json";
import { snippets } from "../../pure/snippets";
import { withTimes } from "../../pure/words";
import { now } from "../../state/clock";
import { MiniFlow } from "./mini-flow";

export function WhyPanel({ job, reasons, checks }: { job: JobView; reasons: Reason[] | undefined; checks: Check[] }) {
  const title = ENDED.has(job.state) ? "How it ended" : job.state === "running" ? "What it is doing" : "Why is it not running?";
  return (
    <Panel title={title} class="o4">
      <div class="body why">
        {!reasons && <Loading rows={2} />}
        {reasons?.map((reason, index) => (
          <div key={reason.code + index}>
            <p class={index ? "m" : "lead"}>{sentence(shortIds(withTimes(withoutCommand(saidOnce(reason)), now.value)))}.</p>
            {/`(fencepost [^`]+)`/.exec(reason.text)?.[1] && <CopyCommand text={/`(fencepost [^`]+)`/.exec(reason.text)![1]!} />}
          </div>
        ))}
        {job.progress && job.state !== "completed" && <Progress job={job} />}
        {checks.length > 0 && <ul aria-label="What was looked at">{checks.map((check) => <CheckLine key={check.code} check={check} />)}</ul>}
      </div>
    </Panel>
  );
}

/** The ring says what is left of a lease, and this would be seconds old. */
const saidOnce = (reason: Reason) => (reason.code === "running" ? reason.text.replace(/; its lease has [^;]* left$/, "") : reason.text);

function CheckLine({ check }: { check: Check }) {
  return (
    <li>
      <Icon name={check.is_met ? "check" : "cross"} state={check.is_met ? "completed" : "failed"} />
      <span class={check.is_met ? "" : "b"}><span class="vh">{check.is_met ? "in order: " : "not met: "}</span>{sentence(check.text)}</span>
      <span class="end">{check.note}</span>
    </li>
  );
}

const CopyCommand = ({ text }: { text: string }) => <div class="cmd"><span>{text}</span><CopyButton text={text} /></div>;

function Progress({ job }: { job: JobView }) {
  const { fraction, message } = job.progress!;
  return (
    <div class="stack8">
      <progress class="prog" max={1} value={fraction} aria-label="Progress" />
      <span class="sm m">{percent(fraction)}{message && `: ${message}`}</span>
    </div>
  );
}

const PARTS = ["Payload", "Result", "Checkpoint"] as const;
type Part = (typeof PARTS)[number];

export function DataPanel({ job, tree, edit }: { job: JobView; tree: Json; edit: preact.ComponentChildren }) {
  const [part, setPart] = useState<Part>("Payload");
  return (
    <section class="panel">
      <header><Choice label="Data" options={PARTS} value={part} onChange={setPart} /><span class="grow" />{part === "Payload" && edit}</header>
      <div class="body"><DataOf job={job} tree={tree} part={part} /></div>
    </section>
  );
}

function DataOf({ job, tree, part }: { job: JobView; tree: Json; part: Part }) {
  const name = part.toLowerCase();
  const value = field(tree, name);
  const bytes = field(tree, `${name}_base64`);
  const locked = field(tree, `${name}_encrypted`);
  if (job.withheld) return <p class="q">Hidden from this token: another submitted the job, and reading it needs the role read.</p>;
  if (locked) return <p class="q">Cannot be read here: it is encrypted, and this server has no key for it.</p>;
  if (bytes?.kind === "string") return <><p class="q sm">Bytes, in base64</p><code class="code">{bytes.value}</code></>;
  const isNone = value === undefined || (value.kind === "word" && value.text === "null" && part !== "Payload" && job.state !== "completed");
  if (isNone) return <p class="q">{part === "Result" ? (ENDED.has(job.state) ? "No result." : "No result yet: it comes when the job has completed.") : `No ${name}.`}</p>;
  return <JsonTree tree={value} />;
}

export function RulesPanel({ job }: { job: JobView }) {
  const { policy } = job;
  const backoff = policy.backoff;
  const rows: [string, preact.ComponentChildren][] = [
    ["Attempts", `${policy.max_attempts}, ${duration(backoff.initial_delay)} × ${backoff.multiplier}, ${backoff.strategy}`],
    ["Timeout", `${duration(policy.timeout)} an attempt`],
    ["Lifetime", <span title={exact(job.expires_at)}>{duration(policy.lifetime)}</span>],
    ["Key", job.key && <code>{job.key}</code>],
    ["Concurrency key", job.concurrency_key && <code>{job.concurrency_key}</code>],
    ["Correlation", job.correlation_id && <Link class="link mono" to={`jobs?correlation=${encodeURIComponent(job.correlation_id)}`}>{job.correlation_id}</Link>],
    ["Replay of", job.replay_of && <Link class="link mono" to={`jobs/${job.replay_of}`}>{short(job.replay_of)}</Link>],
    ["Webhook to", job.callback_url && <code>{job.callback_url}</code>],
  ];
  return (
    <Panel title="Rules">
      <div class="body"><dl class="kv">{rows.filter(([, value]) => value).map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} is`}>{value}</dd>])}</dl></div>
    </Panel>
  );
}

const NODES_SHOWN = 12;

export function FlowPanel({ job }: { job: JobView }) {
  const { data } = useQuery<FlowView>(job.flow ? `v1/flows/${job.flow}` : null, { pace: 2 });
  if (!job.flow) return null;
  const nodes = Object.entries(data?.jobs ?? {});
  const done = nodes.filter(([, each]) => each.state === "completed").length;
  const own = nodes.find(([, each]) => each.id === job.id)?.[0];
  const beside = data?.edges?.some((edge) => edge.from === own || edge.to === own) ? own : undefined;
  return (
    <Panel title="Flow" class="o6" note={data && `${done} of ${nodes.length} done`} tools={<Link class="btn quiet" to={`flows/${job.flow}`}>Graph</Link>}>
      {data && beside && <MiniFlow flow={data} name={beside} />}
      {!beside && <ul class="body nodes">
        {nodes.slice(0, NODES_SHOWN).map(([name, each]) => (
          <li key={name}><Link to={`jobs/${each.id}`} class="row" aria-current={each.id === job.id ? "true" : undefined}><Glyph state={each.state} /><span class="tr">{name}</span><span class="q sm tr">{each.type}</span></Link></li>
        ))}
        {nodes.length > NODES_SHOWN && <li class="q sm">and {nodes.length - NODES_SHOWN} more</li>}
      </ul>}
    </Panel>
  );
}

const KINDS = ["curl", "CLI", "Python"] as const;

export function CopyPanel({ id }: { id: string }) {
  const [kind, setKind] = useState<(typeof KINDS)[number]>("curl");
  const text = snippets(id, BASE)[kind];
  return (
    <Panel title="Copy as" class="o7" tools={<Choice label="Copy as" options={KINDS} value={kind} onChange={setKind} />}>
      <div class="body stack8"><code class="code">{text}</code><div class="row"><span class="grow" /><CopyButton text={text} /></div></div>
    </Panel>
  );
}
