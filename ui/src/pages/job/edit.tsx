// Change a waiting job, or submit a copy of an ended one. Numbers are sent as they are written.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { ApiError, requestText } from "../../api/client";
import type { JobView } from "../../api/types";
import { Modal } from "../../parts/dialog";
import { PRIORITIES, short } from "../../pure/format";
import { field, type Json, parseExact, write } from "../../pure/json";
import { touch } from "../../state/live";
import { go } from "../../state/route";
import { say } from "../../state/toast";
import { refusalText } from "../../state/actions";

export const WAITING = ["pending", "scheduled", "delayed", "retrying"];

export const editing = signal<{ job: JobView; tree: Json; isCopy: boolean } | null>(null);

export const Editor = () => editing.value && <Opened {...editing.value} />;

const tagsText = (tags: Record<string, string>) => Object.entries(tags).map(([name, value]) => `${name}=${value}`).join("\n");

function readTags(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new SyntaxError(`a tag is name=value, and this is not: ${line}`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

/** The body, with the payload word for word. */
function bodyOf(job: JobView, isCopy: boolean, form: { payload: string | null; priority: number; tags: string }): string {
  const fields: [string, string][] = [["priority", String(form.priority)], ["tags", JSON.stringify(readTags(form.tags))]];
  if (form.payload !== null) {
    parseExact(form.payload);
    fields.push(["payload", form.payload]);
  }
  if (isCopy) {
    fields.push(["type", JSON.stringify(job.type)], ["queue", JSON.stringify(job.queue)]);
    if (job.correlation_id) fields.push(["correlation_id", JSON.stringify(job.correlation_id)]);
    if (job.concurrency_key) fields.push(["concurrency_key", JSON.stringify(job.concurrency_key)]);
  }
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

function Opened({ job, tree, isCopy }: { job: JobView; tree: Json; isCopy: boolean }) {
  const payload = field(tree, "payload");
  const before = payload ? write(payload) : null;
  const [text, setText] = useState(before);
  const [priority, setPriority] = useState(job.priority);
  const [tags, setTags] = useState(tagsText(job.tags));
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const close = () => (editing.value = null);

  async function save(event: Event): Promise<void> {
    event.preventDefault();
    setError("");
    setBusy(true);
    try {
      const changed = isCopy || text !== before ? text : null;
      const body = bodyOf(job, isCopy, { payload: changed, priority, tags });
      const reply = await requestText(isCopy ? "POST" : "PATCH", isCopy ? "v1/jobs" : `v1/jobs/${job.id}`, { text: body });
      close();
      say(isCopy ? "A new job is stored." : "Changed.");
      touch();
      if (isCopy) go(`jobs/${JSON.parse(reply).id}`);
    } catch (thrown) {
      setError(thrown instanceof ApiError ? refusalText(thrown, isCopy ? "submit" : "operate") : String((thrown as Error).message));
      setBusy(false);
    }
  }
  return (
    <Modal label={isCopy ? "Submit a copy" : "Edit the job"} onClose={close} class="wide">
      <form class="ask" onSubmit={(event) => void save(event)}>
        <h2>{isCopy ? `A fresh job like ${short(job.id)}` : `Edit ${job.type} ${short(job.id)}`}</h2>
        {text !== null ? (
          <label class="stack8"><span>Payload</span><textarea spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        ) : <p class="q">The payload is not JSON, or hidden: it stays as it is.</p>}
        <label class="stack8"><span>Priority</span>
          <select class="inp" value={priority} onChange={(event) => setPriority(Number(event.currentTarget.value))}>
            {PRIORITIES.map((name, value) => <option value={value} key={name}>{value}, {name}</option>)}
          </select>
        </label>
        <label class="stack8"><span>Tags, a line each: name=value</span><textarea class="low" value={tags} onInput={(event) => setTags(event.currentTarget.value)} /></label>
        {error && <p class="c s-refused" role="alert">{error}</p>}
        <div class="row end">
          <button class="btn" type="button" onClick={close}>Not now</button>
          <button class="btn pri" type="submit" disabled={isBusy || (isCopy && text === null)}>{isCopy ? "Submit the copy" : "Save"}</button>
        </div>
      </form>
    </Modal>
  );
}
