// What a page reads: at once, when something changed, and every few seconds beneath.

import { useEffect, useRef, useState } from "preact/hooks";
import { changes, isWatching } from "../state/live";
import { effect } from "@preact/signals";
import { ApiError, isRefused, requestText } from "./client";

export type Query<T> = {
  data: T | undefined;
  error: ApiError | null;
  /** When the data came, as `Date.now()`; 0: never. */
  at: number;
  /** The server has no such route. */
  isMissing: boolean;
  reload: () => void;
};

type Options<T> = {
  /** Seconds between polls; 0: only once, and when something changed. */
  every?: number;
  /** Seconds between two reads that the stream brings about. */
  pace?: number;
  parse?: (text: string) => T;
};

const plain = <T>(text: string) => JSON.parse(text) as T;

/** Read *path*; null reads nothing. */
export function useQuery<T>(path: string | null, options: Options<T> = {}): Query<T> {
  const { every = 5, pace = 1, parse = plain } = options;
  const [state, setState] = useState<{ path: string | null; data?: T; error: ApiError | null; at: number }>({
    path, error: null, at: 0,
  });
  const reload = useRef<() => void>(() => undefined);

  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let isBusy = false;
    let isStale = true;
    let failures = 0;
    let isGone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let dueAt = Infinity;

    async function read(): Promise<void> {
      clearTimeout(timer);
      dueAt = Infinity;
      if (isBusy || isGone || stop.signal.aborted) return;
      isBusy = true;
      isStale = false;
      try {
        const data = parse(await requestText("GET", path!, { signal: stop.signal }));
        failures = 0;
        setState({ path, data, error: null, at: Date.now() });
      } catch (error) {
        if (stop.signal.aborted) return;
        failures += 1;
        const known = error instanceof ApiError ? error : new ApiError(0, "unreadable", String(error));
        isGone = known.isMissing || known.status === 403;
        // What was shown stays: the page says how old it is.
        setState((old) => (old.path === path ? { ...old, error: known } : { path, error: known, at: 0 }));
      }
      isBusy = false;
      plan(failures ? Math.min(1 + failures, 10) : isStale ? pace : every);
    }
    function plan(seconds: number): void {
      const at = Date.now() + seconds * 1000;
      // A stream of changes must not put off the read that the first of them asked for.
      if (!seconds || isGone || at >= dueAt) return;
      clearTimeout(timer);
      dueAt = at;
      timer = setTimeout(() => {
        dueAt = Infinity;
        if (isWatching()) void read();
        else plan(1);
      }, seconds * 1000);
    }

    reload.current = () => {
      isGone = false;
      isStale = true;
      void read();
    };
    void read();
    let isFirst = true;
    const unwatch = effect(() => {
      void changes.value;
      const isIn = !isRefused.value;
      if (!isFirst && isIn && isWatching()) {
        isStale = true;
        if (!isBusy) plan(pace);
      }
      isFirst = false;
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
      unwatch();
    };
  }, [path]);

  const isOurs = state.path === path;
  return {
    data: isOurs ? state.data : undefined,
    error: isOurs ? state.error : null,
    at: isOurs ? state.at : 0,
    isMissing: isOurs && state.error?.isMissing === true,
    reload: () => reload.current(),
  };
}
