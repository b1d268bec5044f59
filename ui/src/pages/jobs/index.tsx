// The jobs page: states as navigation, the filter, the rows, and what to do with the selected.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useQuery } from "../../api/query";
import { may } from "../../api/session";
import type { JobCount, JobSummary, Queues } from "../../api/types";
import { Act, Empty, Loading, Problem, Stale } from "../../parts/basics";
import { Pick } from "../../parts/pick";
import { Page } from "../../parts/shell";
import { count } from "../../pure/format";
import { isCounted, isLooked, isOldestFirst, jobsQuery, readFilter, selecting, withCondition, writeFilter } from "../../pure/filter";
import { rightNow } from "../../state/clock";
import { useKeys } from "../../state/keys";
import { liveQueues } from "../../state/live";
import { go, search } from "../../state/route";
import { BulkBar } from "./bulk";
import { FilterBar } from "./filter-bar";
import { PAGE, useJobs } from "./list";
import { JobRow } from "./row";
import { StatesNav } from "./states";

const TOP = 80;
const SPANS = ["15m", "1h", "24h", "7d"];

/** How many match, in words; null if it is not known. What reads jobs one by one is not counted. */
function useCount(query: string, isFree: boolean, isCostly: boolean): string | null {
  const path = isCostly ? null : `v1/jobs/count${query && `?${query}`}`;
  const { data } = useQuery<JobCount>(path, isFree ? { pace: 2 } : { every: 30, pace: 10 });
  return data && path ? `${count(data.count)}${data.at_least ? "+" : ""}` : null;
}

export function Jobs() {
  const conditions = useMemo(() => readFilter(search.value), [search.value]);
  const query = useMemo(() => jobsQuery(conditions, rightNow()).toString(), [conditions]);
  const first = useQuery<Queues>(liveQueues.value ? null : "v1/queues", { every: 0 });
  const queues = liveQueues.value ?? first.data?.queues ?? null;
  const [picked, setPicked] = useState<ReadonlyMap<string, JobSummary>>(new Map());
  const [isAll, setAll] = useState(false);
  const [cursor, setCursor] = useState(-1);
  const isOver = useRef(false);
  const anchor = useRef(-1);
  const chosen = selecting(conditions);
  const isCostly = isLooked(chosen);
  const isOldest = isOldestFirst(conditions);
  const counted = useMemo(() => jobsQuery(selecting(conditions), rightNow()).toString(), [conditions]);
  const matching = useCount(counted, isCounted(chosen), isCostly);
  const list = useJobs(query, isCostly, isOldest, () => isOver.current || scrollY > TOP || picked.size > 0);
  const rows = list.rows.shown;
  const canPick = may("operate");

  const clear = () => { setPicked(new Map()); setAll(false); };
  useEffect(() => { clear(); setCursor(-1); }, [query]);
  useEffect(() => {
    if (picked.size) setPicked(new Map([...picked].map(([id, job]) => [id, rows.find((row) => row.id === id) ?? job])));
  }, [rows]);

  function pick(index: number, isRange: boolean): void {
    const changed = new Map(picked);
    const from = isRange && anchor.current >= 0 ? Math.min(anchor.current, index) : index;
    const to = isRange && anchor.current >= 0 ? Math.max(anchor.current, index) : index;
    const isOn = isRange || !picked.has(rows[index]!.id);
    for (const job of rows.slice(from, to + 1)) {
      if (isOn) changed.set(job.id, job);
      else changed.delete(job.id);
    }
    anchor.current = index;
    setAll(false);
    setPicked(changed);
  }
  function move(step: number, extends_: boolean): void {
    const next = Math.max(0, Math.min(rows.length - 1, cursor + step));
    if (!rows.length) return;
    setCursor(next);
    document.querySelectorAll("tr[data-id]")[next]?.scrollIntoView({ block: "nearest" });
    if (extends_ && canPick) pick(next, anchor.current >= 0);
  }
  function pickPage(): void {
    if (!canPick || !rows.length) return;
    if (picked.size >= Math.min(rows.length, PAGE) && chosen.length) setAll(true);
    else setPicked(new Map(rows.map((job) => [job.id, job])));
  }
  function within(span: string | null): void {
    const rest = conditions.filter(({ field }) => field !== "since");
    go(`jobs${writeFilter(span === null ? rest : withCondition(rest, { field: "since", value: span }))}`, { keepsScroll: true });
  }
  function turn(): void {
    const rest = conditions.filter(({ field }) => field !== "order");
    go(`jobs${writeFilter(isOldest ? rest : withCondition(rest, { field: "order", value: "oldest" }))}`, { keepsScroll: true });
  }
  useKeys({
    j: () => move(1, false), k: () => move(-1, false),
    "Shift+j": () => move(1, true), "Shift+k": () => move(-1, true),
    Enter: () => rows[cursor] && go(`jobs/${rows[cursor]!.id}`),
    x: () => canPick && rows[cursor] && pick(cursor, false),
    a: pickPage, n: list.showNew, Escape: clear,
  });
  return (
    <Page title="Jobs">
      <StatesNav queues={queues} conditions={conditions} />
      <div class="row filters">
        <FilterBar conditions={conditions} queues={queues ?? []} />
        <Pick label="Submitted within" all="Any time" names={SPANS} shown={(span) => `Last ${span.replace(/(\d+)/, "$1 ").replace("m", "min")}`}
          value={conditions.find(({ field }) => field === "since")?.value ?? null} onChange={within} />
      </div>
      {isCostly && <Looked list={list} />}
      <Stale error={list.head.error} at={list.head.at} />
      <section class="panel" onPointerEnter={() => (isOver.current = true)} onPointerLeave={() => (isOver.current = false)}>
        <NewRows fresh={list.rows.fresh} isMore={list.rows.isMore} onShow={list.showNew} />
        <Body list={list} hasFilter={chosen.length > 0}>
          <table class="fix cards jt">
            <colgroup>
              {canPick && <col class="c1" />}<col class="c2" /><col /><col class="c3" /><col class="c4" /><col class="c5" /><col class="c6" /><col class="c7" />
            </colgroup>
            <thead>
              <tr>
                {canPick && (
                  <th><input type="checkbox" aria-label="Select this page" onClick={() => (picked.size ? clear() : pickPage())}
                    checked={picked.size > 0 && picked.size >= rows.length} /></th>
                )}
                <th>State</th><th>Type, queue and payload</th><th>Id</th><th>Prio</th><th class="n">Attempt</th>
                <th>What it is doing, or waits for</th><th class="n">
                  <button class="sort" type="button" onClick={turn} title={isOldest ? "Oldest first; show the newest first" : "Newest first; show the oldest first"}>
                    Age <span aria-hidden="true">{isOldest ? "↑" : "↓"}</span><span class="vh">{isOldest ? "oldest first" : "newest first"}</span>
                  </button>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((job, index) => (
                <JobRow key={job.id} job={job} isPicked={picked.has(job.id) || isAll} isCursor={index === cursor}
                  isGone={list.rows.gone.has(job.id)} canPick={canPick} onPick={(isRange) => pick(index, isRange)} />
              ))}
            </tbody>
          </table>
          <More onSeen={list.more} isOn={list.hasMore && !isCostly} key={rows.length} />
          <div class="foot">
            <span>{matching === null ? `${count(rows.length)} shown` : `${count(rows.length)} of ${matching}`}.{list.hasMore && !isCostly && " More as you scroll."}</span>
            <span class="grow" />
            <span class="no-phone"><kbd>j</kbd> <kbd>k</kbd> move&ensp;{canPick && <><kbd>x</kbd> select&ensp;</>}<kbd>↵</kbd> open</span>
          </div>
        </Body>
      </section>
      {(picked.size > 0 || isAll) && (
        <BulkBar picked={[...picked.values()]} isAll={isAll} matching={matching} conditions={conditions}
          onAll={() => setAll(true)} onClear={clear} onDone={list.head.reload} />
      )}
    </Page>
  );
}

function Body({ list, hasFilter, children }: { list: ReturnType<typeof useJobs>; hasFilter: boolean; children: preact.ComponentChildren }) {
  if (list.rows.shown.length) return <>{children}</>;
  if (list.head.error && !list.head.data) return <Problem error={list.head.error} />;
  if (!list.head.data) return <Loading rows={10} />;
  if (hasFilter) return <Empty title="No job matches">Take a condition away, or look at all states.</Empty>;
  return (
    <Empty title="No jobs yet" command="fencepost submit TYPE --help">
      A job stands here from the moment its submission was answered, until retention removes it.
    </Empty>
  );
}

/** What is costly says so: how far it looked, and a button to look further. */
function Looked({ list }: { list: ReturnType<typeof useJobs> }) {
  if (!list.head.data) return <p class="looked" role="status">Looks at the first 10,000 jobs that meet the other conditions, one by one.</p>;
  const unread = list.unreadable ? ` ${count(list.unreadable)} of them cannot be read here and do not match: encrypted, or not JSON.` : "";
  return (
    <p class="looked" role="status">
      Looked at {count(list.looked)} jobs{list.hasMore ? "" : ", all that meet the other conditions"}.{unread}
      {list.hasMore && <Act kind="quiet" onClick={list.more}>Look further</Act>}
    </p>
  );
}

/** What is new is announced, at most every ten seconds to a screen reader, and not pushed in. */
function NewRows({ fresh, isMore, onShow }: { fresh: number; isMore: boolean; onShow: () => void }) {
  const [announced, setAnnounced] = useState("");
  const last = useRef(0);
  const text = `${count(fresh)}${isMore ? " or more" : ""} new ${fresh === 1 ? "job matches" : "jobs match"}.`;
  useEffect(() => {
    if (!fresh) return setAnnounced("");
    const timer = setTimeout(() => { last.current = Date.now(); setAnnounced(text); }, Math.max(0, last.current + 10_000 - Date.now()));
    return () => clearTimeout(timer);
  }, [text, fresh]);
  return (
    <>
      <span class="vh" aria-live="polite">{announced}</span>
      {fresh > 0 && <button class="newrows" type="button" onClick={onShow}>{text} Show them <kbd aria-hidden="true">n</kbd></button>}
    </>
  );
}

/** The end of the list: when it is seen, the next page is read. */
function More({ onSeen, isOn }: { onSeen: () => unknown; isOn: boolean }) {
  const mark = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOn) return;
    const watch = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && onSeen(), { rootMargin: "400px" });
    watch.observe(mark.current!);
    return () => watch.disconnect();
  }, [isOn, onSeen]);
  return <div ref={mark} aria-hidden="true" />;
}
