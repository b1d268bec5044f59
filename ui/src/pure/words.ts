// What a job is doing, or waits for, in a few words: the column that saves opening the job.

import type { JobSummary, PauseView } from "../api/types";
import { between, duration, relative, shortIds } from "./format";
import { className } from "./trace";

const cause = (job: JobSummary) => {
  const failure = job.failure;
  if (!failure) return "";
  const name = className(failure.exception);
  const text = name && !failure.message.startsWith(name) ? `${name}: ${failure.message}` : failure.message;
  return shortIds(text.split("\n")[0]!);
};

/** What a job is doing at *now*, by the server's clock. */
export function doing(job: JobSummary, now: number): string {
  switch (job.state) {
    case "running": return running(job, now);
    case "retrying": return [due(job, now), cause(job)].filter(Boolean).join(" · ");
    case "delayed": return due(job, now);
    case "scheduled":
      return job.scheduled_at ? `ready since ${duration(between(job.scheduled_at, now))}` : "ready";
    case "pending":
      return job.concurrency_key ? `held up by its key, ${job.concurrency_key}` : "waits for other jobs";
    case "completed": return ran(job);
    case "cancelled": return job.started_at ? "cancelled while it ran" : "cancelled before it ran";
    default: return cause(job) || "no reason stored";
  }
}

function running(job: JobSummary, now: number): string {
  if (!job.lease) return `attempt ${job.attempt}`;
  const left = -between(job.lease.expires_at, now);
  const lease = left <= 0 ? `lease ended ${duration(-left)} ago` : `lease ${duration(Math.ceil(left))}`;
  const said = job.progress?.message;
  return [job.lease.worker, lease, said].filter(Boolean).join(" · ");
}

function due(job: JobSummary, now: number): string {
  return between(job.run_at, now) >= 0 ? "due now" : `next ${relative(job.run_at, now)}`;
}

function ran(job: JobSummary): string {
  if (!job.started_at || !job.completed_at) return "done";
  const took = `ran ${duration(between(job.started_at, job.completed_at))}`;
  return job.attempt > 1 ? `${took}, on attempt ${job.attempt}` : took;
}

const AT = /\bat (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? UTC(?: \(in [^)]*\))?/g;

/** A sentence of the API whose times are told as elsewhere: "at 2026-11-19 22:15:19 UTC (in 48.1s)" is "in 48 s". */
export function withTimes(text: string, now: number): string {
  return text.replace(AT, (_, date: string, clock: string) => {
    const told = relative(`${date}T${clock}Z`, now);
    return /^in |ago$/.test(told) ? told : `at ${told}`;
  });
}

/** What follows the word "Paused": by whom and when, as far as that is known. */
export function pausedBy(pause: PauseView | undefined, now: number): string {
  if (!pause?.by) return "";
  return ` by ${pause.by}${pause.at ? `, ${relative(pause.at, now)}` : ""}`;
}
