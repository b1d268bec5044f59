// Small parts that every page uses.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { to } from "../api/root";
import { exact, relative, short, stateName } from "../pure/format";
import { now } from "../state/clock";
import { say } from "../state/toast";

/** An icon; it says nothing by itself, so what it stands beside has the words. */
export function Icon({ name, state }: { name: string; state?: string }) {
  return (
    <svg class={state ? `g s-${state}` : "i"} aria-hidden="true">
      <use href={`#g-${name}`} />
    </svg>
  );
}

export const Glyph = ({ state }: { state: string }) => <Icon name={state} state={state} />;

/** A state with its shape, its colour and its name. */
export function StateText({ state }: { state: string }) {
  return (
    <span class={`row c b sm s-${state}`}>
      <Glyph state={state} />
      {stateName(state)}
    </span>
  );
}

export function Pill({ state, children }: { state: string; children: ComponentChildren }) {
  return (
    <span class={`pill s-${state}`}>
      <Glyph state={state} />
      {children}
    </span>
  );
}

export function Warning({ children, state = "failed", icon = "alert" }: {
  children: ComponentChildren; state?: string; icon?: string;
}) {
  return (
    <span class={`pill s-${state}`}>
      <Icon name={icon} state={state} />
      {children}
    </span>
  );
}

/** A time: relative, with the exact one for pointers and screen readers. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="q">–</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {relative(at, now.value)}
    </time>
  );
}

/** A link to a page, given from the root. */
export function Link({ to: target, class: name, children, ...rest }: {
  to: string; class?: string; children: ComponentChildren; [attribute: string]: unknown;
}) {
  return (
    <a href={to(target)} class={name} {...rest}>
      {children}
    </a>
  );
}

export const JobLink = ({ id }: { id: string }) => (
  <Link to={`jobs/${id}`} class="link mono">{short(id)}</Link>
);

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say("The browser does not let this page copy. Select the text instead.", { isBad: true });
  }
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <button class="btn quiet" type="button" onClick={() => void copy(text)}>
      <Icon name="copy" />
      {label}
    </button>
  );
}

/** The next command to type. */
export function Command({ text }: { text: string }) {
  return (
    <div class="cmd">
      <span>{text}</span>
      <CopyButton text={text} />
    </div>
  );
}

export function Empty({ title, children, command }: {
  title: string; children?: ComponentChildren; command?: string;
}) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {command && <Command text={command} />}
    </div>
  );
}

/** Grey bars of the rows' height; they fade in after a moment, so that quick answers do not flash. */
export function Loading({ rows = 6 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <div class="skrow" key={index}>
          <span class="sk w3" />
          <span class="sk w2" />
          <span class="sk w1" />
        </div>
      ))}
    </div>
  );
}

/** What went wrong, where it went wrong; reads are repeated by themselves. */
export function Problem({ error }: { error: ApiError }) {
  const title = error.isAway ? "The store does not answer" : error.status === 403 ? "Not for this token" : "This cannot be shown";
  const text = error.isAway ? "Nothing was lost: what was answered for is stored. Trying again." : error.message;
  return (
    <div class="empty" role="alert">
      <h2>{title}</h2>
      <p>{text}</p>
      <p class="q sm">
        <code>{error.code}</code>
        {error.requestId && <> · request <code>{error.requestId}</code></>}
      </p>
    </div>
  );
}

/** What is shown is old: says how old. */
export function Stale({ error, at }: { error: ApiError | null; at: number }) {
  if (!error || !at) return null;
  void now.value;
  const seconds = Math.max(1, Math.round((Date.now() - at) / 1000));
  return (
    <div class="banner s-retrying" role="status">
      <Icon name="alert" state="retrying" />
      <span>
        This is as of {seconds} s ago: {error.isAway ? "the store does not answer" : error.message}. Trying again.
      </span>
    </div>
  );
}

export function Panel({ title, note, tools, children, class: name = "" }: {
  title?: ComponentChildren; note?: ComponentChildren; tools?: ComponentChildren;
  children: ComponentChildren; class?: string;
}) {
  return (
    <section class={`panel ${name}`}>
      {(title || tools) && (
        <header>
          {title && <h2>{title}</h2>}
          {note && <span class="q sm tr">{note}</span>}
          <span class="grow" />
          {tools}
        </header>
      )}
      {children}
    </section>
  );
}

/** One of several, as a row of buttons. */
export function Choice<T extends string>({ label, options, value, onChange }: {
  label: string; options: readonly T[]; value: T; onChange: (value: T) => void;
}) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {options.map((each) => (
        <button type="button" key={each} aria-pressed={each === value} onClick={() => onChange(each)}>
          {each}
        </button>
      ))}
    </div>
  );
}

/** A button that runs something: disabled meanwhile, locked where a role is missing. */
export function Act({ children, onClick, role, kind = "", title, isOff = false }: {
  children: ComponentChildren; onClick: () => unknown; role?: string | null; kind?: string;
  title?: string; isOff?: boolean;
}) {
  const [isBusy, setBusy] = useState(false);
  const why = role ?? undefined;
  async function run(): Promise<void> {
    setBusy(true);
    try {
      await onClick();
    } finally {
      setBusy(false);
    }
  }
  return (
    <button
      type="button"
      class={`btn ${kind}`}
      disabled={isBusy || isOff || why !== undefined}
      title={why ?? title}
      onClick={() => void run()}
    >
      {why !== undefined && <Icon name="lock" />}
      {children}
    </button>
  );
}

/** A bar that is full to a share. */
export function Gauge({ share, state }: { share: number; state: string }) {
  return (
    <svg class="gauge" viewBox="0 0 96 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="base" width="96" height="8" rx="2" />
      <rect class={`fill s-${state}`} width={96 * Math.max(0, Math.min(1, share))} height="8" rx="2" />
    </svg>
  );
}
