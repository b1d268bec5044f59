// Beside the graph: the chosen node, and what failed by itself and ended others.

import type { JobSummary } from "../../api/types";
import { Act, Glyph, Link, StateText } from "../../parts/basics";
import { around, titleOf } from "../../pure/flow-words";
import { between, count, duration, many, stateName } from "../../pure/format";
import type { GraphNode } from "../../pure/graph";
import { className } from "../../pure/trace";
import { doing } from "../../pure/words";
import { act, locked } from "../../state/actions";
import { now } from "../../state/clock";
import type { Parts } from "./index";

const NAMES_SHOWN = 5;
const JOBS_SHOWN = 20;

const listed = (names: string[]) => names.slice(0, NAMES_SHOWN).join(", ") + (names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "");

export function NodePanel({ node, jobs, edges }: Parts & { node: GraphNode }) {
  const job = node.jobs[0]!;
  const isMany = node.names.length > 1;
  return (
    <section class="panel" aria-label="Chosen node">
      <header><Glyph state={node.state} /><h2 class="tr">{titleOf(node)}</h2><span class="grow" />{!isMany && <Link class="btn quiet" to={`jobs/${job.id}`}>Open job</Link>}</header>
      <NodeFacts node={node} jobs={jobs} edges={edges} />
      {isMany && (
        <ul class="body nodes topline">
          {node.names.slice(0, JOBS_SHOWN).map((name) => (
            <li key={name}><Link class="row" to={`jobs/${jobs[name]!.id}`}><StateText state={jobs[name]!.state} /><span class="tr">{name}</span><span class="q sm tr">{doing(jobs[name]!, now.value)}</span></Link></li>
          ))}
          {node.names.length > JOBS_SHOWN && <li class="q sm">and {count(node.names.length - JOBS_SHOWN)} more</li>}
        </ul>
      )}
    </section>
  );
}

function NodeFacts({ node, jobs, edges }: Parts & { node: GraphNode }) {
  const { after, holdsUp } = around(node.names, edges);
  const alone = node.names.length > 1 ? [] : factsOf(jobs[node.names[0]!]!);
  const rows: [string, string | null][] = [
    ["Type", node.type], ...alone,
    ["After", after.length ? listed(after) : "nothing"],
    ["Holds up", holdsUp ? `${many(holdsUp, "job")}, at once or in turn` : "nothing"],
  ];
  return <dl class="kv body">{rows.filter(([, value]) => value).map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} is`} title={value!}>{value}</dd>])}</dl>;
}

function factsOf(job: JobSummary): [string, string | null][] {
  const left = job.lease ? -between(job.lease.expires_at, now.value) : 0;
  return [
    ["State", stateWords(job)],
    ["Attempt", `${job.attempt} of ${job.max_attempts}`],
    ["Lease", job.lease && (left > 0 ? `${duration(Math.ceil(left))} left` : `ended ${duration(-left)} ago`)],
    ["Worker", job.lease?.worker ?? null],
  ];
}

/** Its state and what that means; a lease and its worker have rows of their own. */
function stateWords(job: JobSummary): string {
  const words = job.state === "running" ? (job.progress?.message ?? "") : doing(job, now.value);
  return [stateName(job.state), words].filter(Boolean).join(", ");
}

/** A job that failed by itself, the jobs that ended with it, and the way back. */
export function FailurePanel({ name, job, ended }: { name: string; job: JobSummary; ended: string[] }) {
  const failure = job.failure;
  const cause = failure && [className(failure.exception), failure.message.split("\n")[0]].filter(Boolean).join(": ");
  const one = ended.length === 1;
  return (
    <section class="panel" aria-label={`Failure of ${name}`}>
      <header><Glyph state={job.state} /><h2 class="tr">{name}</h2><span class="grow" />
        <Link class="btn quiet" to={`jobs/${job.id}`}>Open job</Link>
        <Act role={locked("operate")} kind="quiet" onClick={() => act("POST", `v1/jobs/${job.id}/retry`, "It runs again.")}>Retry</Act></header>
      <div class="body sm">
        <p class="c s-failed b">{cause ?? "no reason stored"}</p>
        <p class="m">{job.attempt} of {many(job.max_attempts, "attempt")}.{ended.length > 0 && <> <b>{listed(ended)}</b> waited for it, so {one ? "it" : "they"} ended too and never ran. Retrying the flow runs {one ? "both" : "all"} again, in order.</>}</p>
      </div>
    </section>
  );
}
