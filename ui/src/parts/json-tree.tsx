// JSON as a tree. Every value is text, digit by digit as it is stored.

import { useState } from "preact/hooks";
import { type Json, write } from "../pure/json";
import { copy, Icon } from "./basics";

const OPEN_DEPTH = 2;
const ITEMS_FIRST = 100;
const TEXT_MAX = 2000;

export function JsonTree({ tree }: { tree: Json }) {
  return <div class="json"><Node tree={tree} depth={0} /></div>;
}

function Node({ name, tree, depth }: { name?: string; tree: Json; depth: number }) {
  if (tree.kind === "object" || tree.kind === "array") return <Branch name={name} tree={tree} depth={depth} />;
  return <Line name={name} depth={depth} tree={tree}><Leaf tree={tree} /></Line>;
}

type BranchTree = Extract<Json, { kind: "object" | "array" }>;

function Branch({ name, tree, depth }: { name?: string; tree: BranchTree; depth: number }) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH);
  const [limit, setLimit] = useState(ITEMS_FIRST);
  const items: [string, Json][] = tree.kind === "object" ? tree.items : tree.items.map((each, index) => [String(index), each]);
  const size = tree.kind === "object" ? `{${items.length}}` : `[${items.length}]`;
  const isRoot = depth === 0 && name === undefined;
  const inner = isRoot ? 0 : depth + 1;
  return (
    <>
      {!(isRoot && items.length) && (
        <Line name={name} depth={depth} tree={tree}>
          {items.length > 0 && (
            <button class={`tw ${isOpen ? "on" : ""}`} type="button" aria-expanded={isOpen} aria-label={`${name ?? "value"}, ${items.length} items`} onClick={() => setOpen(!isOpen)}>
              <Icon name="chev" />
            </button>
          )}
          <span class="q">{size}</span>
        </Line>
      )}
      {isOpen && items.slice(0, limit).map(([key, each], index) => <Node key={index} name={key} tree={each} depth={inner} />)}
      {isOpen && items.length > limit && (
        <button class="btn quiet" type="button" onClick={() => setLimit(limit * 10)}>{items.length - limit} more</button>
      )}
    </>
  );
}

function Line({ name, depth, tree, children }: { name?: string; depth: number; tree: Json; children: preact.ComponentChildren }) {
  return (
    <div class="l" style={{ paddingLeft: `${4 + depth * 16}px` }}>
      {name !== undefined && <span class="k">{name}: </span>}
      {children}
      <button class="cp" type="button" aria-label={`Copy ${name ?? "value"}`} onClick={() => void copy(tree.kind === "string" ? tree.value : write(tree))}>copy</button>
    </div>
  );
}

function Leaf({ tree }: { tree: Extract<Json, { kind: "string" | "number" | "word" }> }) {
  const [isWhole, setWhole] = useState(false);
  if (tree.kind === "number") return <span class="nu">{tree.text}</span>;
  if (tree.kind === "word") return <span class="kw">{tree.text}</span>;
  const text = JSON.stringify(tree.value);
  if (isWhole || text.length <= TEXT_MAX) return <span class="st">{text}</span>;
  return (
    <span class="st">
      {text.slice(0, TEXT_MAX)}…
      <button class="btn quiet" type="button" onClick={() => setWhole(true)}>{text.length - TEXT_MAX} more characters</button>
    </span>
  );
}
