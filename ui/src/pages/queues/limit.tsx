// How many jobs of a queue run at once: a number, or none.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { QueueView } from "../../api/types";
import { Modal } from "../../parts/dialog";
import { count } from "../../pure/format";
import { act, named } from "../../state/actions";

const asked = signal<QueueView | null>(null);

export const askLimit = (queue: QueueView) => (asked.value = queue);
export const LimitBox = () => asked.value && <Opened queue={asked.value} key={asked.value.name} />;

function setLimit(name: string, value: number | null, before: number | null | undefined): Promise<unknown> {
  const path = `v1/queues/${named(name)}/limit`;
  const text = value === null ? `Queue ${name} has no limit any more.` : `At most ${count(value)} jobs of ${name} run at once.`;
  return act("PUT", path, text, {
    body: { max_running: value },
    undo: () => void act("PUT", path, "Undone.", { body: { max_running: before ?? null } }),
  });
}

function Opened({ queue }: { queue: QueueView }) {
  const [text, setText] = useState(queue.max_running == null ? "" : String(queue.max_running));
  const close = () => (asked.value = null);
  const value = text.trim() === "" ? null : Number(text);
  const isFit = value === null || (Number.isInteger(value) && value >= 0);
  return (
    <Modal label={`Limit of queue ${queue.name}`} onClose={close}>
      <form class="ask" onSubmit={(event) => { event.preventDefault(); if (isFit) { close(); void setLimit(queue.name, value, queue.max_running); } }}>
        <h2>Limit of queue {queue.name}</h2>
        <p class="m">How many of its jobs run at once, over all workers. Those that run go on: now {count(queue.counts?.running ?? 0)}.</p>
        <label class="stack8"><span>At most; empty for no limit</span>
          <input class="inp" inputMode="numeric" value={text} aria-invalid={!isFit} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <div class="row end"><button class="btn" type="button" onClick={close}>Not now</button><button class="btn pri" type="submit" disabled={!isFit}>Set the limit</button></div>
      </form>
    </Modal>
  );
}
