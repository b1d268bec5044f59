// The filter: what is typed becomes a condition, and the conditions are the address.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { QueueView } from "../../api/types";
import { Icon } from "../../parts/basics";
import { PRIORITIES, STATES } from "../../pure/format";
import { type Condition, FIELDS, isField, readText, withCondition, writeFilter } from "../../pure/filter";
import { useKeys } from "../../state/keys";
import { go } from "../../state/route";

type Suggestion = { text: string; note: string; isWhole: boolean };

const LIMIT = 8;
const STARTS = 14;
/** Fields whose values the server completes. */
const COMPLETED = ["queue", "type", "tag", "correlation", "flow", "key", "error"];

/** Values that are known without asking. */
function values(field: string, queues: QueueView[]): string[] {
  if (field === "state") return [...STATES];
  if (field === "queue") return queues.map((queue) => queue.name);
  if (field === "type") return [...new Set(queues.flatMap((queue) => Object.keys(queue.claimable ?? {})))];
  if (field === "priority") return PRIORITIES;
  if (field === "order") return ["newest", "oldest"];
  if (field === "since" || field === "before") return ["15m", "1h", "24h", "7d"];
  return [];
}

export function suggest(text: string, queues: QueueView[], completions: string[]): Suggestion[] {
  const colon = text.indexOf(":");
  const field = text.slice(0, Math.max(colon, 0));
  if (isField(field)) {
    const start = text.slice(colon + 1).toLowerCase();
    const known = [...new Set([...values(field, queues), ...completions])];
    return known.filter((value) => value.toLowerCase().includes(start)).slice(0, LIMIT)
      .map((value) => ({ text: `${field}:${value}`, note: "", isWhole: true }));
  }
  const starts = Object.entries(FIELDS).map(([name, { hint }]) => ({ text: name === "where" ? "payload." : `${name}:`, note: hint, isWhole: false }));
  return starts.filter((start) => start.text.startsWith(text.toLowerCase())).slice(0, STARTS);
}

/** Values of a field by the store, where the server has a route for them. */
function useCompletions(text: string): string[] {
  const [completions, setCompletions] = useState<string[]>([]);
  useEffect(() => {
    setCompletions([]);
    const colon = text.indexOf(":");
    const field = text.slice(0, Math.max(colon, 0));
    if (!COMPLETED.includes(field)) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const query = new URLSearchParams({ field, prefix: text.slice(colon + 1), limit: String(LIMIT) });
      get<{ values: string[] }>(`v1/completions?${query}`, stop.signal)
        .then((reply) => setCompletions(reply.values))
        .catch(() => undefined);
    }, 120);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return completions;
}

export function FilterBar({ conditions, queues }: { conditions: Condition[]; queues: QueueView[] }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(-1);
  const [isOpen, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const found = suggest(text, queues, useCompletions(text));
  const isShown = isOpen && found.length > 0;
  const apply = (changed: Condition[]) => go(`jobs${writeFilter(changed)}`, { keepsScroll: true });

  function add(typed: string): void {
    const condition = readText(typed);
    if (!condition) return;
    apply(withCondition(conditions, condition));
    setText("");
    setAt(-1);
  }
  function take(suggestion: Suggestion): void {
    if (suggestion.isWhole && !suggestion.text.endsWith(":")) add(suggestion.text);
    else setText(suggestion.text);
    setAt(-1);
    input.current?.focus();
  }
  function edit(condition: Condition): void {
    apply(conditions.filter((each) => each !== condition));
    setText(condition.field === "where" ? condition.value : `${condition.field}:${condition.value}`);
    input.current?.focus();
  }
  function press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && isShown) {
      event.preventDefault();
      setAt((at + step + found.length) % found.length);
    } else if (event.key === "Tab" && !event.shiftKey && text && isShown) {
      event.preventDefault();
      take(found[Math.max(at, 0)]!);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (isShown && at >= 0) take(found[at]!);
      else add(text);
    } else if (event.key === "Backspace" && !text && conditions.length) apply(conditions.slice(0, -1));
    else if (event.key === "Escape") input.current?.blur();
  }
  useKeys({ "/": () => input.current?.focus() });
  return (
    <div class="filter grow" role="search">
      <Icon name="search" />
      {conditions.map((condition) => (
        <span class="tok" key={`${condition.field}:${condition.value}`}>
          <button class="word" type="button" title="Edit" onClick={() => edit(condition)}>
            {condition.field !== "where" && <b>{condition.field}:</b>}<span>{condition.value}</span>
          </button>
          <button type="button" aria-label={`Remove ${condition.field} ${condition.value}`}
            onClick={() => apply(conditions.filter((each) => each !== condition))}>
            <Icon name="x" />
          </button>
        </span>
      ))}
      <input ref={input} role="combobox" aria-label="Filter jobs" aria-expanded={isShown} aria-controls="suggestions"
        aria-activedescendant={at >= 0 && isShown ? `s-${at}` : undefined} autoComplete="off" spellcheck={false} value={text}
        placeholder={conditions.length ? "Add a filter" : "Filter: state, queue, type, tag, error, payload.path:value, since, or the start of an id"}
        onKeyDown={press} onFocus={() => setOpen(true)} onBlur={() => setOpen(false)}
        onInput={(event) => { setText(event.currentTarget.value); setAt(-1); }} />
      <kbd class="no-phone">/</kbd>
      <div class="complete" id="suggestions" role="listbox" aria-label="Suggestions" hidden={!isShown}>
        {isShown && found.map((suggestion, index) => (
          <div class="opt" role="option" id={`s-${index}`} key={suggestion.text} aria-selected={index === at}
            onMouseDown={(event) => { event.preventDefault(); take(suggestion); }}>
            <span class="mono tr">{suggestion.text}</span><span class="end">{suggestion.note}</span>
          </div>
        ))}
      </div>
    </div>
  );
}
