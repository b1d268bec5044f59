// One job: what it is, its life, its lease, why it is where it is, and what can be done.

import { useQuery } from "../../api/query";
import type { Attempts, History, JobView, Reasons, RefusedWrites } from "../../api/types";
import { Act, Empty, Link, Loading, Pill, Problem, Stale } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { Page } from "../../parts/shell";
import { between, duration, ENDED, exact, PRIORITIES, relative, short, stateName } from "../../pure/format";
import { type Json, parseExact } from "../../pure/json";
import { act, locked } from "../../state/actions";
import { now } from "../../state/clock";
import { useKeys } from "../../state/keys";
import { go } from "../../state/route";
import { lastList } from "../jobs/list";
import { AttemptsPanel } from "./attempts";
import { editing, Editor, WAITING } from "./edit";
import { LeasePanel, useBeats } from "./lease";
import { CopyPanel, DataPanel, FlowPanel, RulesPanel, WhyPanel } from "./sides";
import { TimelinePanel } from "./timeline";

type Read = { job: JobView; tree: Json };

const readJob = (text: string): Read => ({ job: JSON.parse(text), tree: parseExact(text) });

export function Job({ id }: { id: string }) {
  const path = `v1/jobs/${encodeURIComponent(id)}`;
  const main = useQuery<Read>(path, { parse: readJob, every: 2 });
  const attempts = useQuery<Attempts>(`${path}/attempts`, { every: 2 });
  const history = useQuery<History>(`${path}/history`, { every: 4 });
  const why = useQuery<Reasons>(`${path}/why`, { every: 4 });
  const refusals = useQuery<RefusedWrites>(`${path}/refusals`, { every: 5 });
  const { beats, ttl } = useBeats(main.data?.job);
  const step = (by: number) => {
    const next = lastList.ids[lastList.ids.indexOf(id) + by];
    if (lastList.ids.includes(id) && next) go(`jobs/${next}`);
  };
  useKeys({ "[": () => step(-1), "]": () => step(1) });

  const above = { path: "jobs", name: "Jobs" };
  if (!main.data) {
    const isNone = main.error?.status === 404;
    return (
      <Page title={short(id)} above={above}>
        <section class="panel">
          {isNone ? <Empty title="No job has this id">It never existed, retention has removed it, or it is out of this token's reach.</Empty>
            : main.error ? <Problem error={main.error} /> : <Loading rows={8} />}
        </section>
      </Page>
    );
  }
  const { job, tree } = main.data;
  const runs = attempts.data?.attempts ?? [];
  const refused = refusals.data?.refusals ?? [];
  return (
    <Page title={short(id)} above={above}>
      <Head job={job} tree={tree} />
      <Stale error={main.error} at={main.at} />
      <div class="grid-21 ordered">
        <div class="stack">
          <TimelinePanel job={job} attempts={runs} changes={history.data?.history ?? []} refusals={refused} beats={beats} tree={tree} />
          <AttemptsPanel attempts={runs} max={job.max_attempts} refusals={refused} />
          <div class="grid2 o5">
            <DataPanel job={job} tree={tree} edit={<EditButton job={job} tree={tree} kind="quiet" />} />
            <RulesPanel job={job} />
          </div>
        </div>
        <div class="stack">
          <LeasePanel job={job} attempts={runs} ttl={ttl} beats={beats} at={main.at} refusals={refusals.data} />
          <WhyPanel job={job} reasons={why.data?.reasons} checks={why.data?.checks ?? []} />
          <FlowPanel job={job} />
          <CopyPanel id={job.id} />
        </div>
      </div>
      <Editor />
    </Page>
  );
}

function Head({ job, tree }: { job: JobView; tree: Json }) {
  const since = job.completed_at ?? (job.state === "running" ? job.started_at : null);
  const span = since && (job.completed_at ? relative(since, now.value) : duration(between(since, now.value)));
  return (
    <div class="jobhead">
      <div class="row wrap">
        <h2 class="title">{job.type}</h2>
        <Pill state={job.state}>{stateName(job.state)}{span && ` · ${span}`}</Pill>
        <span class="grow" />
        <Actions job={job} tree={tree} />
      </div>
      <div class="facts">
        <span class="mono">{job.id}</span>
        <span><span class="q">queue</span><Link class="link" to={`jobs?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</Link></span>
        <span><span class="q">priority</span>{job.priority}, {PRIORITIES[job.priority]}</span>
        <span><span class="q">attempt</span>{job.attempt} of {job.max_attempts}</span>
        <span title={exact(job.created_at)}><span class="q">submitted</span>{relative(job.created_at, now.value)}</span>
        {job.node && <span><span class="q">node</span>{job.node}</span>}
        {Object.entries(job.tags).map(([name, value]) => (
          <Link class="tag" key={name} to={`jobs?tag=${encodeURIComponent(`${name.replaceAll(":", "%3A")}:${value}`)}`}>{name}={value}</Link>
        ))}
      </div>
    </div>
  );
}

function EditButton({ job, tree, kind = "" }: { job: JobView; tree: Json; kind?: string }) {
  const isWaiting = WAITING.includes(job.state);
  const isCopy = ENDED.has(job.state);
  const role = isCopy ? "submit" : "operate";
  return (
    <Act role={locked(role)} kind={kind} isOff={!isWaiting && !isCopy} title={isWaiting || isCopy ? undefined : "A job that runs cannot be changed"}
      onClick={() => (editing.value = { job, tree, isCopy })}>
      {isCopy ? "Copy and edit…" : "Edit…"}
    </Act>
  );
}

const AGAIN: Record<string, string> = { delayed: "Run now", retrying: "Run now", failed: "Retry", dead_letter: "Retry", cancelled: "Retry" };

function Actions({ job, tree }: { job: JobView; tree: Json }) {
  const why = locked("operate");
  const path = `v1/jobs/${job.id}`;
  const isLive = !ENDED.has(job.state);
  const again = AGAIN[job.state];
  return (
    <>
      <EditButton job={job} tree={tree} />
      {job.state === "dead_letter" && (
        <Act role={why} title="A fresh job with the same payload" onClick={async () => {
          const made = await act<{ id: string }>("POST", `v1/dead-letters/${job.id}/replay`, "Replayed as a fresh job.");
          if (made?.id) go(`jobs/${made.id}`);
        }}>Replay</Act>
      )}
      <Act role={why} isOff={!again} title={again ? undefined : "Only a job that waits for its time or has failed can be run again"}
        onClick={() => act("POST", `${path}/retry`, again === "Run now" ? "It is due now." : "It runs again.")}>
        {again ?? "Retry"}
      </Act>
      {isLive && <Act role={why} kind="danger" onClick={() => cancel(job)}>{job.state === "running" ? "Cancel…" : "Cancel"}</Act>}
    </>
  );
}

/** One that waits is cancelled at once, and can be taken back; one that runs is asked about. */
function cancel(job: JobView): unknown {
  const path = `v1/jobs/${job.id}`;
  if (job.state !== "running") {
    return act("POST", `${path}/cancel`, "Cancelled.", { undo: () => void act("POST", `${path}/retry`, "It waits again.") });
  }
  const worker = job.lease?.worker ?? "its worker";
  return ask({
    title: `Cancel ${job.type} ${short(job.id)}?`,
    text: `It runs on ${worker} and loses its lease now; ${worker} learns it with its next heartbeat. It can be retried later.`,
    button: "Cancel the job", isDangerous: true,
    onYes: () => act("POST", `${path}/cancel`, `Cancelled. ${worker} learns it with its next heartbeat.`),
  });
}
