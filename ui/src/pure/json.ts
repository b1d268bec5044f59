// JSON as a tree that keeps every digit: 9007199254740993 stays what it is, 1.0 stays 1.0.

export type Json =
  | { kind: "object"; items: [string, Json][] }
  | { kind: "array"; items: Json[] }
  | { kind: "string"; value: string }
  | { kind: "number"; text: string }
  | { kind: "word"; text: "true" | "false" | "null" };

const DEPTH_MAX = 200;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\r\n]*/y;

/** Return the tree of a JSON text; throws SyntaxError. */
export function parseExact(text: string): Json {
  let at = 0;

  function fail(): never {
    throw new SyntaxError(`not JSON at character ${at + 1}`);
  }
  function match(pattern: RegExp): string | null {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) return null;
    at = pattern.lastIndex;
    return found[0];
  }
  function take(sign: string): boolean {
    match(SPACE);
    if (text[at] !== sign) return false;
    at += 1;
    return true;
  }
  function string(): string {
    const found = match(STRING);
    return found === null ? fail() : (JSON.parse(found) as string);
  }
  function list<T>(end: string, item: () => T): T[] {
    const items: T[] = [];
    if (take(end)) return items;
    do items.push(item());
    while (take(","));
    return take(end) ? items : fail();
  }
  function value(depth: number): Json {
    if (depth > DEPTH_MAX) fail();
    match(SPACE);
    if (take("{")) {
      return {
        kind: "object",
        items: list<[string, Json]>("}", () => {
          match(SPACE);
          const name = string();
          if (!take(":")) fail();
          return [name, value(depth + 1)];
        }),
      };
    }
    if (take("[")) return { kind: "array", items: list("]", () => value(depth + 1)) };
    if (text[at] === '"') return { kind: "string", value: string() };
    for (const word of ["true", "false", "null"] as const) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return { kind: "word", text: word };
      }
    }
    const number = match(NUMBER);
    return number === null ? fail() : { kind: "number", text: number };
  }

  const tree = value(0);
  match(SPACE);
  return at === text.length ? tree : fail();
}

/** Return the tree as text, with two spaces an indent; with none on one line. */
export function write(tree: Json, indent = "  ", level = 0): string {
  const line = indent ? `\n${indent.repeat(level + 1)}` : "";
  const last = indent ? `\n${indent.repeat(level)}` : "";
  const gap = indent ? " " : "";
  switch (tree.kind) {
    case "string": return JSON.stringify(tree.value);
    case "number":
    case "word": return tree.text;
    case "array":
      if (!tree.items.length) return "[]";
      return `[${line}${tree.items.map((each) => write(each, indent, level + 1)).join(`,${line}`)}${last}]`;
    case "object": {
      if (!tree.items.length) return "{}";
      const items = tree.items.map(
        ([name, each]) => `${JSON.stringify(name)}:${gap}${write(each, indent, level + 1)}`,
      );
      return `{${line}${items.join(`,${line}`)}${last}}`;
    }
  }
}

/** Return a field of an object; undefined if it is another kind, or has none of this name. */
export function field(tree: Json | undefined, name: string): Json | undefined {
  if (tree?.kind !== "object") return undefined;
  return tree.items.find(([each]) => each === name)?.[1];
}
