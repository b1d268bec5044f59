// What can be done with the selected jobs, or with all that match.

import { request } from "../../api/client";
import type { JobSummary } from "../../api/types";
import { Act, Icon } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { count, many } from "../../pure/format";
import { type Condition, selectionBody } from "../../pure/filter";
import { locked, refusalText } from "../../state/actions";
import { rightNow } from "../../state/clock";
import { touch } from "../../state/live";
import { say } from "../../state/toast";

const LIVE = ["pending", "scheduled", "delayed", "running", "retrying"];
const AGAIN = ["delayed", "retrying", "failed", "dead_letter", "cancelled"];
const AT_ONCE = 4;

type Props = {
  picked: JobSummary[]; isAll: boolean; matching: number | null; conditions: Condition[];
  onAll: () => void; onClear: () => void;
};

/** Do the same to each job, a few at once; say how many it worked for and why not for the rest. */
async function each(jobs: JobSummary[], verb: Verb, done: string): Promise<void> {
  const left = [...jobs];
  const refused: unknown[] = [];
  async function run(): Promise<void> {
    for (let job = left.pop(); job; job = left.pop()) {
      try {
        await request("POST", `v1/jobs/${job.id}/${verb}`);
      } catch (error) {
        refused.push(error);
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, run));
  const worked = jobs.length - refused.length;
  const why = refused.length ? ` ${many(refused.length, "job")} refused: ${refusalText(refused[0], "operate")}` : "";
  say(`${many(worked, "job")} ${done}.${why}`, { isBad: refused.length > 0 });
  touch();
}

type Verb = "cancel" | "retry";

const WORDS: Record<Verb, { name: string; done: string; text: string }> = {
  cancel: {
    name: "Cancel", done: "cancelled",
    text: "All live jobs that match the filter. Those that run lose their lease now, the others never start, and what waits for them is cancelled too. They can be retried later.",
  },
  retry: {
    name: "Run again", done: "run again",
    text: "All that match the filter and have failed or were cancelled; those that are delayed or retrying if the filter names their state. Their attempts are counted from the start.",
  },
};

/** Count first; if many more match by then, ask again. */
async function doMatching(verb: Verb, conditions: Condition[], expected: number | null): Promise<void> {
  const body = selectionBody(conditions, rightNow());
  const path = `v1/jobs/${verb}`;
  try {
    const dry = await request<{ count: number }>("POST", path, { body: { ...body, dry_run: true } });
    if (expected === null || dry.count > expected * 1.1) return askMatching(verb, conditions, dry.count);
    const done = await request<{ count: number }>("POST", path, { body });
    say(`${many(done.count, "job")} ${WORDS[verb].done}.`);
  } catch (error) {
    say(refusalText(error, "operate"), { isBad: true });
  }
  touch();
}

function askMatching(verb: Verb, conditions: Condition[], found: number): void {
  const { name, text } = WORDS[verb];
  ask({
    title: `${name} ${many(found, "job")}?`, text, button: `${name} ${count(found)}`, isDangerous: verb === "cancel", count: found,
    onYes: () => doMatching(verb, conditions, found),
  });
}

function askCancel(jobs: JobSummary[], done: () => void): void {
  const running = jobs.filter((job) => job.state === "running").length;
  ask({
    title: `Cancel ${many(jobs.length, "job")}?`,
    text: `${count(running)} that run lose their lease now, ${count(jobs.length - running)} never start. They can be retried later.`,
    button: `Cancel ${jobs.length}`, isDangerous: true, count: jobs.length,
    onYes: async () => { await each(jobs, "cancel", "cancelled"); done(); },
  });
}

export function BulkBar({ picked, isAll, matching, conditions, onAll, onClear }: Props) {
  const why = locked("operate");
  const again = picked.filter((job) => AGAIN.includes(job.state));
  const live = picked.filter((job) => LIVE.includes(job.state));
  const canAll = conditions.length > 0;
  return (
    <div class="bulk" role="region" aria-label="Selected jobs">
      <b aria-live="polite">{isAll ? (matching === null ? "All that match" : `All ${count(matching)} that match`) : `${picked.length} selected`}</b>
      {!isAll && canAll && (
        <button class="btn quiet" type="button" onClick={onAll}>
          {matching === null ? "Select all that match" : `Select all ${count(matching)} that match`}
        </button>
      )}
      <span class="bar" />
      {isAll && <Act role={why} onClick={() => doMatching("retry", conditions, null)}>Run again…</Act>}
      {!isAll && (
        <Act role={why} isOff={!again.length} onClick={async () => { await each(again, "retry", "run again"); onClear(); }}>
          <Icon name="retrying" />Run now <span class="q">{again.length}</span>
        </Act>
      )}
      <Act role={why} kind="danger" isOff={!isAll && !live.length}
        onClick={() => (isAll ? doMatching("cancel", conditions, null) : askCancel(live, onClear))}>
        Cancel…{!isAll && <span class="q">{live.length}</span>}
      </Act>
      <button class="btn ico quiet" type="button" aria-label="End the selection" onClick={onClear}><Icon name="x" /></button>
    </div>
  );
}

