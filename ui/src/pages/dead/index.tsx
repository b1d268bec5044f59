// The workbench: dead letters by what is common to them, the trace, and a replay at a rate.

import { useEffect, useState } from "preact/hooks";
import { request } from "../../api/client";
import { useQuery } from "../../api/query";
import type { DeadLetter, DeadLetterPage, Discarded, Group, Groups, JobView } from "../../api/types";
import { Act, Empty, Gauge, Link, Loading, Panel, Pill, Problem, Stale, Time } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { Page } from "../../parts/shell";
import { Bars } from "../../parts/spark";
import { count, many, percent, shortIds } from "../../pure/format";
import { common, isOf, worstFirst } from "../../pure/groups";
import { field, type Json, parseExact } from "../../pure/json";
import { className } from "../../pure/trace";
import { act, locked, refusalText } from "../../state/actions";
import { params } from "../../state/route";
import { say } from "../../state/toast";
import { FailureView } from "../job/attempts";
import { ReplaysPanel } from "./replays";
import { ReplayPanel } from "./workbench";

const LETTERS = 200;

type Sample = { job: JobView; tree: Json };

const readSample = (text: string): Sample => ({ job: JSON.parse(text), tree: parseExact(text) });

export function DeadLetters() {
  const type = params.value.get("type");
  const query = type ? `&type=${encodeURIComponent(type)}` : "";
  const read = useQuery<Groups>(`v1/dead-letters/groups${type ? `?type=${encodeURIComponent(type)}` : ""}`, { every: 10, pace: 3 });
  const letters = useQuery<DeadLetterPage>(`v1/dead-letters?limit=${LETTERS}${query}`, { every: 10, pace: 3 });
  const found = letters.data?.dead_letters;
  const groups = read.data && worstFirst(read.data.groups);
  const chosen = groups?.find((group) => group.id === params.value.get("group")) ?? groups?.[0];
  const total = groups?.reduce((sum, group) => sum + group.count, 0) ?? 0;
  const isCut = read.data ? !read.data.is_complete : letters.data?.next != null;
  return (
    <Page title="Dead letters">
      <Stale error={letters.error} at={letters.at} />
      <ReplaysPanel />
      {groups && !groups.length ? (
        <section class="panel"><Empty title="No dead letters">What runs out of attempts will stand here until somebody replays or discards it.</Empty></section>
      ) : (
        <div class="bench">
          <Panel title={groups ? many(groups.length, "group") : "Groups"} note={groups && `${many(total, "job")}${isCut ? ", the newest" : ""}`}>
            {groups ? <nav aria-label="Groups">{groups.map((group) => <GroupLink key={group.id} group={group} isHere={group === chosen} />)}</nav>
              : letters.error ? <Problem error={letters.error} /> : <Loading rows={5} />}
            {groups && <div class="foot">Dead letters and jobs that failed for good, by type, error and first own frame</div>}
          </Panel>
          {chosen && <GroupView key={chosen.id} group={chosen} letters={found?.filter((letter) => isOf(letter, chosen)) ?? []} />}
        </div>
      )}
    </Page>
  );
}

function GroupLink({ group, isHere }: { group: Group; isHere: boolean }) {
  const query = new URLSearchParams(params.value);
  query.set("group", group.id);
  return (
    <Link class="grp" to={`dead-letters?${query}`} aria-current={isHere ? "true" : undefined}>
      <b class="tr">{group.type}</b><span class="v">{count(group.count)}</span>
      <span class="c s-failed sm tr" title={group.message}>{className(group.exception) || shortIds(group.message)}</span>
      <Bars values={group.trend} state="dead_letter" label={`${group.type}: an hour a bar, last 24 hours`} />
      <code class="q tr">{group.frame ?? "no own frame"}</code><span />
      <span class="q sm">first <Time at={group.first_at} />, last <Time at={group.last_at} /></span>
    </Link>
  );
}

function GroupView({ group, letters }: { group: Group; letters: DeadLetter[] }) {
  const [at, setAt] = useState(0);
  const id = group.sample[Math.min(at, group.sample.length - 1)];
  const sample = useQuery<Sample>(id ? `v1/jobs/${id}` : null, { every: 0, pace: 30, parse: readSample });
  const failure = letters.find((letter) => letter.job_id === id)?.failure ?? sample.data?.job.failure;
  const payload = field(sample.data?.tree, "payload");
  useEffect(() => setAt(0), [group.id]);
  return (
    <div class="stack">
      <section class="panel">
        <div class="body stack8">
          <div class="row wrap">
            <h2 class="title h18">{group.type}</h2><Pill state="dead_letter">{many(group.count, "job")}</Pill>{group.is_rising && <span class="c s-dead_letter sm">rising, {count(group.trend.at(-1) ?? 0)} within the hour</span>}<span class="grow" />
            <Link class="btn" to={`jobs?state=dead_letter&type=${encodeURIComponent(group.type)}`}>Show the jobs</Link>
            <Act role={locked("operate")} kind="danger" onClick={() => askDiscard(group)}>Discard all…</Act>
          </div>
          {failure ? <FailureView failure={failure} isWhole={false} /> : <Loading rows={2} />}
        </div>
      </section>
      {letters.length > 1 && <CommonPanel letters={letters} />}
      <ReplayPanel group={group} sample={id} payload={sample.data && (payload ?? null)} note={id && `${at + 1} of ${group.sample.length} newest`}
        onNext={group.sample.length > 1 ? () => setAt((at + 1) % group.sample.length) : undefined} />
    </div>
  );
}

function CommonPanel({ letters }: { letters: DeadLetter[] }) {
  const rows: [string, ReturnType<typeof common>][] = [
    ["queue", common(letters, (letter) => letter.queue)], ["attempts", common(letters, (letter) => String(letter.attempts))],
    ["category", common(letters, (letter) => letter.failure.category)], ["message", common(letters, (letter) => letter.failure.message.split("\n")[0]!)],
  ];
  return (
    <Panel title="What they have in common" note={`${count(letters.length)} compared`}>
      <div class="body varies">
        {rows.map(([name, found]) => [
          <code class="q" key={name}>{name}</code>,
          <span class="row" key={`${name} is`}><Gauge share={found.share} state={found.share === 1 ? "dead_letter" : "plain"} />
            <span class="tr"><b>{found.value}</b> {found.share === 1 ? `in all ${letters.length}` : `in ${percent(found.share)}, ${found.values} values`}</span></span>,
        ])}
      </div>
    </Panel>
  );
}

/** Count, ask, and discard what was counted. */
async function askDiscard(group: Group): Promise<void> {
  const chosen = { type: group.type, group: group.id };
  try {
    const found = await request<Discarded>("POST", "v1/dead-letters/discard", { body: { ...chosen, dry_run: true } });
    ask({
      title: `Discard ${many(found.count, "dead letter")}?`, count: found.count, button: `Discard ${count(found.count)}`, isDangerous: true,
      text: "They leave this list for good. Their jobs stay, as dead letters, until retention removes them, and can be retried.",
      onYes: () => void act<Discarded>("POST", "v1/dead-letters/discard", (reply) => `${many(reply.count, "dead letter")} discarded.`, { body: { ...chosen, expected: found.count } }),
    });
  } catch (error) {
    say(refusalText(error, "operate"), { isBad: true });
  }
}
