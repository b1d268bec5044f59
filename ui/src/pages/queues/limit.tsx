// How many jobs run at once, of a queue or in all: a number, or none.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Modal } from "../../parts/dialog";
import { count } from "../../pure/format";
import { act, named } from "../../state/actions";

/** *queue*: null means all of them together. */
type Asked = { queue: string | null; before: number | null; running: number };

const asked = signal<Asked | null>(null);

export const askLimit = (about: Asked) => (asked.value = about);
export const LimitBox = () => asked.value && <Opened about={asked.value} key={asked.value.queue} />;

function setLimit({ queue, before }: Asked, value: number | null): Promise<unknown> {
  const path = queue === null ? "v1/limit" : `v1/queues/${named(queue)}/limit`;
  const which = queue === null ? "all queues together" : queue;
  const text = value === null ? `No limit any more for ${which}.` : `At most ${count(value)} jobs of ${which} run at once.`;
  return act("PUT", path, text, {
    body: { max_running: value },
    undo: () => void act("PUT", path, "Undone.", { body: { max_running: before } }),
  });
}

function Opened({ about }: { about: Asked }) {
  const [text, setText] = useState(about.before === null ? "" : String(about.before));
  const close = () => (asked.value = null);
  const value = text.trim() === "" ? null : Number(text);
  const isFit = value === null || (Number.isInteger(value) && value >= 0);
  const title = about.queue === null ? "Limit of all queues together" : `Limit of queue ${about.queue}`;
  return (
    <Modal label={title} onClose={close}>
      <form class="ask" onSubmit={(event) => { event.preventDefault(); if (isFit) { close(); void setLimit(about, value); } }}>
        <h2>{title}</h2>
        <p class="m">How many jobs run at once, over all workers. Those that run go on: now {count(about.running)}.</p>
        <label class="stack8"><span>At most; empty for no limit</span>
          <input class="inp" inputMode="numeric" value={text} aria-invalid={!isFit} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <div class="row end"><button class="btn" type="button" onClick={close}>Not now</button><button class="btn pri" type="submit" disabled={!isFit}>Set the limit</button></div>
      </form>
    </Modal>
  );
}
