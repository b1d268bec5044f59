// What a patch changes in a payload, line by line.

import { type Json, parseExact, write } from "./json";

export type DiffLine = { kind: "same" | "del" | "add"; text: string };

/** The lines of *payload*, with those that *patch*, an object as JSON, replaces and adds; null if it is no object. */
export function patched(payload: Json, patch: string): DiffLine[] | null {
  if (payload.kind !== "object") return null;
  const changes = readObject(patch);
  if (!changes) return null;
  const line = (name: string, value: Json) => `  ${JSON.stringify(name)}: ${write(value, "")}`;
  const lines: DiffLine[] = [];
  const known = new Set(payload.items.map(([name]) => name));
  for (const [name, value] of payload.items) {
    const change = changes.find(([each]) => each === name)?.[1];
    if (change === undefined || write(change, "") === write(value, "")) lines.push({ kind: "same", text: line(name, value) });
    else lines.push({ kind: "del", text: line(name, value) }, { kind: "add", text: line(name, change) });
  }
  for (const [name, value] of changes) if (!known.has(name)) lines.push({ kind: "add", text: line(name, value) });
  return [{ kind: "same", text: "{" }, ...lines, { kind: "same", text: "}" }];
}

function readObject(text: string): [string, Json][] | null {
  if (text.trim() === "") return [];
  try {
    const read = parseExact(text);
    return read.kind === "object" ? read.items : null;
  } catch {
    return null;
  }
}
