// Rows that do not move under the hand: what is new is counted, what is there is changed in place.

export type Row = { id: string; created_at: string };
export type Rows<T extends Row> = {
  shown: T[];
  /** How many rows match that are not shown yet. */
  fresh: number;
  /** True if there may be more of them than were counted. */
  isMore: boolean;
  /** Rows that are shown and match no more. */
  gone: ReadonlySet<string>;
};

export const NO_ROWS: Rows<never> = { shown: [], fresh: 0, isMore: false, gone: new Set() };

/** Merge the first page into what is shown; with *holdsStill*, nothing is added, removed or moved. */
export function merge<T extends Row>(old: Rows<T>, page: T[], holdsStill: boolean, isOldestFirst = false): Rows<T> {
  if (!holdsStill || !old.shown.length) return { shown: page, fresh: 0, isMore: false, gone: new Set() };
  const found = new Map(page.map((row) => [row.id, row]));
  const known = new Set(old.shown.map((row) => row.id));
  const fresh = page.filter((row) => !known.has(row.id)).length;
  const end = page.at(-1)?.created_at ?? "";
  const isBefore = (row: T) => (isOldestFirst ? row.created_at < end : row.created_at > end);
  const gone = new Set(
    old.shown.filter((row) => !found.has(row.id) && (isBefore(row) || old.gone.has(row.id))).map((row) => row.id),
  );
  const shown = old.shown.map((row) => found.get(row.id) ?? row);
  return { shown, fresh, isMore: fresh === page.length && fresh > 0, gone };
}

/** Add the next page at the end. */
export function append<T extends Row>(old: Rows<T>, page: T[]): Rows<T> {
  const known = new Set(old.shown.map((row) => row.id));
  return { ...old, shown: [...old.shown, ...page.filter((row) => !known.has(row.id))] };
}
