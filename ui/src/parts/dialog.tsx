// A question before what cannot simply be undone: how many, what happens to those that run.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** From this many on, one types the number. */
const TYPED_FROM = 100;

export type Question = {
  title: string;
  text: ComponentChildren;
  button: string;
  isDangerous?: boolean;
  count?: number;
  onYes: () => unknown;
};

const question = signal<Question | null>(null);

export function ask(asked: Question): void {
  question.value = asked;
}

/** A modal box: the browser's own dialog holds the focus and closes on Escape. */
export function Modal({ label, onClose, children, class: name = "" }: {
  label: string; onClose: () => void; children: ComponentChildren; class?: string;
}) {
  const box = useRef<HTMLDialogElement>(null);
  // Before the next key can come: it is meant for the box.
  useLayoutEffect(() => {
    const shown = box.current!;
    shown.showModal();
    return () => shown.close();
  }, []);
  return (
    <dialog
      ref={box}
      class={`modal ${name}`}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === box.current) onClose();
      }}
    >
      {children}
    </dialog>
  );
}

export function Questions() {
  const asked = question.value;
  return asked && <Asked asked={asked} key={asked.title} />;
}

function Asked({ asked }: { asked: Question }) {
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const mustType = (asked.count ?? 0) > TYPED_FROM;
  const isReady = !mustType || typed.trim().replaceAll(",", "") === String(asked.count);
  const close = () => (question.value = null);

  async function yes(event: Event): Promise<void> {
    event.preventDefault();
    if (!isReady || isBusy) return;
    setBusy(true);
    try {
      await asked.onYes();
    } finally {
      close();
    }
  }
  return (
    <Modal label={asked.title} onClose={close}>
      <form class="ask" onSubmit={(event) => void yes(event)}>
        <h2>{asked.title}</h2>
        <div class="m">{asked.text}</div>
        {mustType && (
          <label class="stack8 sm">
            <span>Type {asked.count} to go on</span>
            <input class="inp" inputMode="numeric" autoComplete="off" value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        <div class="row end">
          <button class="btn" type="button" onClick={close}>Not now</button>
          <button class={`btn ${asked.isDangerous ? "danger" : "pri"}`} type="submit" disabled={!isReady || isBusy}>
            {asked.button}
          </button>
        </div>
      </form>
    </Modal>
  );
}
