// What can be done with the selected jobs, or with all that match.

import type { ComponentChildren } from "preact";
import { request } from "../../api/client";
import type { JobSummary } from "../../api/types";
import { Act, Icon } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { count, many, PRIORITIES } from "../../pure/format";
import { type Condition, selecting, selectionBody } from "../../pure/filter";
import { locked, refusalText } from "../../state/actions";
import { rightNow } from "../../state/clock";
import { touch } from "../../state/live";
import { say } from "../../state/toast";

const LIVE = ["pending", "scheduled", "delayed", "running", "retrying"];
const TIMED = ["delayed", "retrying"];
const ENDED = ["failed", "dead_letter", "cancelled"];

type Props = {
  picked: JobSummary[]; isAll: boolean; matching: string | null; conditions: Condition[];
  onAll: () => void; onClear: () => void; onDone: () => void;
};

type Verb = "cancel" | "retry" | "edit";
type Deed = { verb: Verb; name: string; done: string; text: string; extra?: Record<string, unknown> };
type Reply = { count: number; refused?: Record<string, number> };

const CANCEL: Deed = {
  verb: "cancel", name: "Cancel", done: "cancelled",
  text: "All live jobs that match the filter. Those that run lose their lease now, the others never start, and what waits for them is cancelled too. They can be retried later.",
};
const AGAIN: Deed = {
  verb: "retry", name: "Run again", done: "run again",
  text: "All that match the filter and have failed or were cancelled; those that are delayed or retrying if the filter names their state. Their attempts are counted from the start.",
};
const NOW: Deed = {
  verb: "edit", name: "Run now", done: "due now", extra: { edit: { run_at: "1970-01-01T00:00:00Z" } },
  text: "All that match the filter and wait for their time, or for their next attempt, become due now. Their attempts stay counted.",
};
const priority = (value: number): Deed => ({
  verb: "edit", name: `Set priority ${PRIORITIES[value]!} for`, done: `now of priority ${PRIORITIES[value]!}`, extra: { edit: { priority: value } },
  text: "All that match the filter and wait. Jobs that wait for one of them and inherited its priority change with it.",
});

async function send(deed: Deed, body: Record<string, unknown>): Promise<Reply> {
  return request<Reply>("POST", `v1/jobs/${deed.verb}`, { body: { ...body, ...deed.extra } });
}

/** Do it to the selected jobs; say how many it worked for. */
async function doPicked(deed: Deed, jobs: JobSummary[], done: () => void, undo?: () => void): Promise<void> {
  try {
    const reply = await send(deed, { ids: jobs.map((job) => job.id) });
    const rest = jobs.length - reply.count;
    say(`${many(reply.count, "job")} ${deed.done}.${rest > 0 ? ` ${many(rest, "job")} could not be.` : ""}`, { isBad: rest > 0, undo });
    done();
  } catch (error) {
    say(refusalText(error, "operate"), { isBad: true });
  }
  touch();
}

/** Count first; if many more match by then, ask again. */
async function doMatching(deed: Deed, conditions: Condition[], expected: number | null, done: () => void): Promise<void> {
  const body = selectionBody(conditions, rightNow());
  try {
    const dry = await send(deed, { ...body, dry_run: true });
    if (expected === null || dry.count > expected * 1.1) return askMatching(deed, conditions, dry.count, done);
    const reply = await send(deed, { ...body, expected });
    say(`${many(reply.count, "job")} ${deed.done}.`);
    done();
  } catch (error) {
    say(refusalText(error, "operate"), { isBad: true });
  }
  touch();
}

function askMatching(deed: Deed, conditions: Condition[], found: number, done: () => void): void {
  ask({
    title: `${deed.name} ${many(found, "job")}?`, text: deed.text, button: `${deed.name} ${count(found)}`, isDangerous: deed.verb === "cancel", count: found,
    onYes: () => doMatching(deed, conditions, found, done),
  });
}

function askCancel(jobs: JobSummary[], done: () => void): void {
  const running = jobs.filter((job) => job.state === "running").length;
  ask({
    title: `Cancel ${many(jobs.length, "job")}?`,
    text: `${fates(running, jobs.length - running)}. They can be retried later.`,
    button: `Cancel ${jobs.length}`, isDangerous: true, count: jobs.length,
    onYes: () => doPicked(CANCEL, jobs, done),
  });
}

function fates(running: number, waiting: number): string {
  const lost = running === 1 ? "1 that runs loses its lease now" : `${count(running)} that run lose their lease now`;
  const never = `${many(waiting, "job")} never ${waiting === 1 ? "starts" : "start"}`;
  return [running && lost, waiting && never].filter(Boolean).join(", ");
}

/** Give the selected jobs a priority; undoing gives each its own again. */
function prioritize(jobs: JobSummary[], value: number, done: () => void): Promise<void> {
  const undo = async () => {
    for (const old of new Set(jobs.map((job) => job.priority))) {
      await doPicked(priority(old), jobs.filter((job) => job.priority === old), done);
    }
  };
  return doPicked(priority(value), jobs, done, () => void undo());
}

export function BulkBar({ picked, isAll, matching, conditions, onAll, onClear, onDone }: Props) {
  const why = locked("operate");
  const within = (states: string[]) => picked.filter((job) => states.includes(job.state));
  const [again, timed, live] = [within(ENDED), within(TIMED), within(LIVE)];
  const waiting = live.filter((job) => job.state !== "running");
  const canAll = selecting(conditions).length > 0;
  const all = (deed: Deed) => doMatching(deed, conditions, null, onDone);
  const some = (deed: Deed, jobs: JobSummary[]) => doPicked(deed, jobs, () => { onClear(); onDone(); });
  return (
    <div class="bulk" role="region" aria-label="Selected jobs">
      <b aria-live="polite">{isAll ? (matching === null ? "All that match" : `All ${matching} that match`) : `${picked.length} selected`}</b>
      {!isAll && canAll && (
        <button class="btn quiet" type="button" onClick={onAll}>
          {matching === null ? "Select all that match" : `Select all ${matching} that match`}
        </button>
      )}
      <span class="bar" />
      <Deeds deed={NOW} jobs={timed} isAll={isAll} why={why} onAll={all} onSome={some}><Icon name="retrying" />Run now</Deeds>
      <Deeds deed={AGAIN} jobs={again} isAll={isAll} why={why} onAll={all} onSome={some}>Run again</Deeds>
      <select class="inp" aria-label="Set the priority" title={why ?? undefined} value="" disabled={why !== null || (!isAll && !waiting.length)}
        onChange={(event) => {
          const value = Number(event.currentTarget.value);
          event.currentTarget.value = "";
          void (isAll ? all(priority(value)) : prioritize(waiting, value, () => { onClear(); onDone(); }));
        }}>
        <option value="" disabled>Priority…</option>
        {PRIORITIES.map((name, value) => <option key={name} value={value}>{name}</option>)}
      </select>
      <Act role={why} kind="danger" isOff={!isAll && !live.length}
        onClick={() => (isAll ? all(CANCEL) : askCancel(live, () => { onClear(); onDone(); }))}>
        Cancel…{!isAll && <span class="q">{live.length}</span>}
      </Act>
      <button class="btn ico quiet" type="button" aria-label="End the selection" onClick={onClear}><Icon name="x" /></button>
    </div>
  );
}

function Deeds({ deed, jobs, isAll, why, onAll, onSome, children }: {
  deed: Deed; jobs: JobSummary[]; isAll: boolean; why: string | null; children: ComponentChildren;
  onAll: (deed: Deed) => unknown; onSome: (deed: Deed, jobs: JobSummary[]) => unknown;
}) {
  return (
    <Act role={why} isOff={!isAll && !jobs.length} onClick={() => (isAll ? onAll(deed) : onSome(deed, jobs))}>
      {children}{isAll ? "…" : <span class="q">{jobs.length}</span>}
    </Act>
  );
}
