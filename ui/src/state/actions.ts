// What people do: one call, what it says when it worked, and what it says when it was refused.

import { ApiError, request } from "../api/client";
import { may, me } from "../api/session";
import { link, touch } from "./live";
import { say } from "./toast";

/** Why an action is locked; null: it is not. */
export function locked(role: string): string | null {
  if (may(role)) return link.value === "away" ? "Reconnect first: the server does not answer." : null;
  const roles = me.value?.roles.join(", ") || "none that allows this";
  return `Needs the role ${role}; your token has ${roles}.`;
}

type Done<T> = string | ((reply: T) => string);
type Undo = { undo?: () => void };

/** Do it; return whether it was done. */
export async function act<T>(
  method: string, path: string, done: Done<T>, options: { body?: unknown; text?: string; role?: string } & Undo = {},
): Promise<T | null> {
  const role = options.role ?? "operate";
  try {
    const reply = await request<T>(method, path, { body: options.body, text: options.text });
    say(typeof done === "function" ? done(reply) : done, { undo: options.undo });
    touch();
    return reply ?? ({} as T);
  } catch (error) {
    say(refusalText(error, role), { isBad: true });
    touch();
    return null;
  }
}

export function refusalText(error: unknown, role: string): string {
  if (!(error instanceof ApiError)) return String(error);
  if (error.status === 403 && error.message.includes("lacks role")) return locked(role) ?? error.message;
  if (error.status === 504) return `Nobody knows whether it was done: ${error.message}`;
  if (error.isAway) return "The store does not answer. Nothing was changed.";
  return error.message;
}

const named = (name: string) => name.split("/").map(encodeURIComponent).join("/");

/** Pause or resume a queue, a type or a cron, with an undo. */
export function setPaused(kind: "queues" | "types" | "crons", name: string, isPaused: boolean): Promise<unknown> {
  const one = kind.slice(0, -1);
  const text = `${one.charAt(0).toUpperCase()}${one.slice(1)} ${name} is ${isPaused ? "paused" : "resumed"}.`;
  return act("POST", `v1/${kind}/${named(name)}/${isPaused ? "pause" : "resume"}`, text, {
    undo: () => void act("POST", `v1/${kind}/${named(name)}/${isPaused ? "resume" : "pause"}`, "Undone."),
  });
}

export { named };
