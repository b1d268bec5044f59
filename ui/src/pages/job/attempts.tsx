// Every attempt, newest first, with its traceback; a refused write stands beneath who tried it.

import { useState } from "preact/hooks";
import type { Attempt, Failure, Refusal } from "../../api/types";
import { CopyButton, Empty, Icon, Panel } from "../../parts/basics";
import { between, clock, duration, exact, many } from "../../pure/format";
import { laneOf } from "../../pure/refusals";
import { traceLines } from "../../pure/trace";
import { now } from "../../state/clock";

const STATES: Record<string, string> = {
  running: "running", succeeded: "completed", failed: "failed", released: "scheduled", snoozed: "delayed",
  unreadable: "retrying", cancelled: "cancelled",
};

export function AttemptsPanel({ attempts, max, refusals }: { attempts: Attempt[]; max: number; refusals: Refusal[] }) {
  const [isWhole, setWhole] = useState(false);
  const hasTrace = attempts.some((attempt) => attempt.failure?.traceback);
  return (
    <Panel title="Attempts" class="o3" note={attempts.length ? `${attempts.at(-1)!.number} of ${max}` : undefined}
      tools={hasTrace && <button class="btn quiet" type="button" aria-pressed={isWhole} onClick={() => setWhole(!isWhole)}>{isWhole ? "Own frames only" : "Show all frames"}</button>}>
      {!attempts.length && <Empty title="No attempt yet">The first claim starts one.</Empty>}
      {attempts.map((attempt, index) => ({ attempt, fence: index + 1 })).reverse().map(({ attempt, fence }, place) => (
        <div key={attempt.id}>
          {refusals.filter((each) => laneOf(each, attempts) === fence - 1).map((each) => <RefusedWrite key={each.at} refusal={each} fence={fence} last={attempts.length} worker={attempt.worker} />)}
          <AttemptLine attempt={attempt} fence={fence} isOpen={place === 0 && attempt.failure != null} isWhole={isWhole} />
        </div>
      ))}
    </Panel>
  );
}

function RefusedWrite({ refusal, fence, last, worker }: { refusal: Refusal; fence: number; last: number; worker: string }) {
  return (
    <div class="refusal">
      <Icon name="refused" state="refused" />
      <div>
        <span class="t" title={exact(refusal.at)}>{clock(refusal.at)} · {refusal.operation} refused.</span>{" "}
        {refusal.worker ?? worker} held <b>fence {fence}</b>; the present fence is <b>{last}</b>, so nothing changed.
      </div>
    </div>
  );
}

function words(attempt: Attempt): string {
  if (attempt.failure) return attempt.failure.message.split("\n")[0]!;
  return { running: "runs now", succeeded: "returned", released: "given back, not counted", snoozed: "asked to run later" }[attempt.outcome as string] ?? attempt.outcome;
}

function AttemptLine({ attempt, fence, isOpen, isWhole }: { attempt: Attempt; fence: number; isOpen: boolean; isWhole: boolean }) {
  const isLost = attempt.failure?.category === "system";
  const state = isLost ? "retrying" : (STATES[attempt.outcome] ?? "scheduled");
  const end = attempt.ended_at ?? now.value;
  return (
    <details class="attempt" open={isOpen}>
      <summary>
        <Icon name={state} state={state} />
        <b>Attempt {attempt.number}</b>
        <span class="m tr sm" title={attempt.worker}>fence {fence} · {attempt.worker}</span>
        <span class={`tr sm ${attempt.failure ? `c s-${state}` : "m"}`}>{words(attempt)}</span>
        <time class="q sm" dateTime={attempt.started_at} title={exact(attempt.started_at)}>{clock(attempt.started_at)}</time>
        <span class="n">{duration(between(attempt.started_at, end))}</span>
        <span class="chev"><Icon name="chev" /></span>
      </summary>
      <div class="in">
        {attempt.failure ? <FailureView failure={attempt.failure} isWhole={isWhole} /> : <p class="q sm">Lease version <code>{attempt.lease_version}</code>, from {exact(attempt.started_at)}.</p>}
      </div>
    </details>
  );
}

export function FailureView({ failure, isWhole }: { failure: Failure; isWhole: boolean }) {
  const lines = failure.traceback ? traceLines(failure.traceback) : [];
  const shown = isWhole ? lines : lines.filter((line) => line.kind !== "library");
  const hidden = lines.length - shown.length;
  return (
    <>
      {lines.length ? (
        <pre class="trace" tabIndex={0} aria-label="Traceback">
          {hidden > 0 && <span>{`${many(hidden, "line")} of libraries\n`}</span>}
          {shown.map((line, index) => <span key={index} class={line.kind === "own" ? "own" : line.kind === "error" ? "err" : ""}>{`${line.text}\n`}</span>)}
        </pre>
      ) : <pre class="trace" tabIndex={0} aria-label="Message"><span class="err">{failure.message}</span></pre>}
      <div class="row sm q">
        <span>Category <b class="m">{failure.category}</b>{failure.code && <>, code <code class="m">{failure.code}</code></>}</span>
        <span class="grow" />
        <CopyButton text={failure.traceback ?? failure.message} />
      </div>
    </>
  );
}
