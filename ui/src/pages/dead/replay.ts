// Replays one after the other, at a rate, from this page: it can be held, and stops by itself.

import { signal } from "@preact/signals";
import { ApiError, get, request } from "../../api/client";
import type { DeadLetter, DeadLetterPage, Group } from "../../api/types";
import { isOf } from "../../pure/groups";
import { touch } from "../../state/live";

const PAGE = 200;
const LETTERS_MAX = 10_000;
const REFUSED_MAX = 10;

export type Run = { name: string; verb: "replay" | "discard"; total: number; done: number; refused: number; last: string; state: "running" | "held" | "over" };

/** What is under way, or was last. */
export const run = signal<Run | null>(null);

/** Read the dead letters of a group, which the server finds by itself if it made it. */
export async function lettersOf(group: Group, isServers: boolean): Promise<DeadLetter[]> {
  const chosen = isServers ? `group=${encodeURIComponent(group.id)}` : `type=${encodeURIComponent(group.type)}`;
  const found: DeadLetter[] = [];
  let after: string | null = null;
  for (let seen = 0; seen < LETTERS_MAX; seen += PAGE) {
    const cursor: string = after === null ? "" : `&after=${encodeURIComponent(after)}`;
    const page: DeadLetterPage = await get<DeadLetterPage>(`v1/dead-letters?limit=${PAGE}&${chosen}${cursor}`);
    found.push(...page.dead_letters.filter((letter) => isServers || isOf(letter, group)));
    after = page.next;
    if (after === null || found.length >= group.count) break;
  }
  return found;
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function change(part: Partial<Run>): void {
  if (run.value) run.value = { ...run.value, ...part };
}

async function one(verb: Run["verb"], id: string): Promise<void> {
  if (verb === "replay") await request("POST", `v1/dead-letters/${id}/replay`);
  else await request("DELETE", `v1/dead-letters/${id}`);
}

/** Start; refuses while another is under way. */
export async function start(name: string, verb: Run["verb"], ids: string[], perSecond: number): Promise<void> {
  if (run.value && run.value.state !== "over") return;
  run.value = { name, verb, total: ids.length, done: 0, refused: 0, last: "", state: "running" };
  for (const id of ids) {
    const began = performance.now();
    while (state() === "held") await pause(100);
    if (state() === "over") break;
    try {
      await one(verb, id);
      change({ done: run.value.done + 1 });
    } catch (error) {
      const isOver = run.value.refused + 1 >= REFUSED_MAX || (error instanceof ApiError && error.status === 403);
      change({ refused: run.value.refused + 1, last: error instanceof Error ? error.message : String(error), state: isOver ? "over" : state() });
    }
    await pause(Math.max(0, 1000 / perSecond - (performance.now() - began)));
  }
  change({ state: "over" });
  touch();
}

const state = () => run.value?.state ?? "over";

export const hold = (isHeld: boolean) => change({ state: isHeld ? "held" : "running" });
export const end = () => change({ state: "over" });
