// The jobs that match: the first page is read again and again, further ones as one scrolls.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import { useQuery } from "../../api/query";
import type { JobPage, ListedJob } from "../../api/types";
import { merge, append, NO_ROWS, type Rows } from "../../pure/rows";

export const PAGE = 50;
const ROWS_MAX = 2000;

/** The ids of the list that a job was opened from, for `[` and `]`. */
export const lastList: { ids: string[] } = { ids: [] };

/** A search that reads jobs one by one is costly: it is not repeated every few seconds. */
export function useJobs(query: string, isCostly: boolean, isOldestFirst: boolean, holdsStill: () => boolean) {
  const path = `v1/jobs?limit=${PAGE}${query && `&${query}`}`;
  const head = useQuery<JobPage>(path, isCostly ? { every: 60, pace: 30 } : { every: 5, pace: 1 });
  const [rows, setRows] = useState<Rows<ListedJob>>(NO_ROWS);
  const [next, setNext] = useState<string | null>(null);
  const [further, setFurther] = useState({ looked: 0, unreadable: 0 });
  const pages = useRef(0);
  const isBusy = useRef(false);

  useEffect(() => {
    setRows(NO_ROWS);
    setFurther({ looked: 0, unreadable: 0 });
    pages.current = 0;
  }, [path]);
  useEffect(() => {
    if (!head.data) return;
    const isStill = pages.current > 0 && holdsStill();
    setRows((old) => merge(old, head.data!.jobs, isStill, isOldestFirst));
    if (!isStill) {
      pages.current = 1;
      setFurther({ looked: 0, unreadable: 0 });
      setNext(head.data.next);
    }
  }, [head.data]);

  async function more(): Promise<void> {
    if (next === null || isBusy.current || rows.shown.length >= ROWS_MAX) return;
    isBusy.current = true;
    try {
      const page = await get<JobPage>(`${path}&after=${encodeURIComponent(next)}`);
      pages.current += 1;
      setRows((old) => append(old, page.jobs));
      setFurther((old) => ({ looked: old.looked + (page.looked ?? 0), unreadable: old.unreadable + (page.unreadable ?? 0) }));
      setNext(page.next);
    } catch {
      // the head of the list says what is wrong; scrolling tries again
    }
    isBusy.current = false;
  }
  function showNew(): void {
    if (!head.data) return;
    pages.current = 1;
    setFurther({ looked: 0, unreadable: 0 });
    setRows((old) => merge(old, head.data!.jobs, false));
    setNext(head.data.next);
    scrollTo(0, 0);
  }
  lastList.ids = rows.shown.map((row) => row.id);
  const looked = (head.data?.looked ?? 0) + further.looked;
  const unreadable = (head.data?.unreadable ?? 0) + further.unreadable;
  return { head, rows, looked, unreadable, hasMore: next !== null && rows.shown.length < ROWS_MAX, more, showNew };
}
