// How often jobs of a type start: a rate as its code would have it, or none.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Modal } from "../../parts/dialog";
import { isRate, type Rate, rateText } from "../../pure/rates";
import { act, named } from "../../state/actions";

type Asked = { type: string; before: Rate | null };

const asked = signal<Asked | null>(null);

export const askRate = (about: Asked) => (asked.value = about);
export const RateBox = () => asked.value && <Opened about={asked.value} key={asked.value.type} />;

function setRate({ type, before }: Asked, rate: string | null): Promise<unknown> {
  const path = `v1/types/${named(type)}/limit`;
  return act("PUT", path, rate === null ? `No rate any more for ${type}.` : `${type} starts at most ${rate}.`, {
    body: { rate },
    undo: () => void act("PUT", path, "Undone.", { body: { rate: before && rateText(before) } }),
  });
}

function Opened({ about }: { about: Asked }) {
  const [text, setText] = useState(about.before ? rateText(about.before) : "");
  const close = () => (asked.value = null);
  const isFit = text.trim() === "" || isRate(text);
  return (
    <Modal label={`Rate of type ${about.type}`} onClose={close}>
      <form class="ask" onSubmit={(event) => { event.preventDefault(); if (isFit) { close(); void setRate(about, text.trim() || null); } }}>
        <h2>Rate of type {about.type}</h2>
        <p class="m">How often its jobs start, over all workers. It holds until a worker starts, which sets the rate that its code has.</p>
        <label class="stack8"><span>At most, such as 100/m or 10/30s; empty for no rate</span>
          <input class="inp" value={text} aria-invalid={!isFit} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <div class="row end"><button class="btn" type="button" onClick={close}>Not now</button><button class="btn pri" type="submit" disabled={!isFit}>Set the rate</button></div>
      </form>
    </Modal>
  );
}
