// Edit and replay: what changes in each payload, how many, how fast, and when to stop.

import { useState } from "preact/hooks";
import type { Group, ReplayView } from "../../api/types";
import { Act, JobLink, Loading, Panel } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { patched } from "../../pure/diff";
import { count, duration, many } from "../../pure/format";
import { type Json, write } from "../../pure/json";
import { isObject, replayBody } from "../../pure/replays";
import { act, locked } from "../../state/actions";

type Scope = "one" | "sample" | "all";
const SAMPLE = 10;
const LINES_MAX = 60;

/** *payload*: undefined while it is read, null if it is not JSON or cannot be read here. */
type Props = { group: Group; sample: string | undefined; payload: Json | null | undefined; note: string | undefined; onNext: (() => void) | undefined };

export function ReplayPanel({ group, sample, payload, note, onNext }: Props) {
  const [patch, setPatch] = useState("");
  const isReadable = patch.trim() === "" || isObject(patch);
  return (
    <Panel title="Edit and replay" note="each replay is a fresh job, linked to the old one">
      <div class="replay">
        <div>
          <div class="row"><span class="sm m">Payload {sample && <>of <JobLink id={sample} />, {note}</>}</span><span class="grow" />
            {onNext && <button class="btn quiet" type="button" onClick={onNext}>Next sample</button>}</div>
          <Payload payload={payload} patch={patch} />
          <label class="stack8 sm plainset"><span>Change these fields in each payload, as JSON; empty: none</span>
            <textarea rows={2} class="mono" spellcheck={false} value={patch} placeholder='{"currency": "EUR"}' aria-invalid={!isReadable} onInput={(event) => setPatch(event.currentTarget.value)} /></label>
          {!isReadable && <p class="sm c s-refused" role="alert">The fields are not a JSON object.</p>}
        </div>
        <Choices group={group} sample={sample} patch={patch} isReadable={isReadable} />
      </div>
    </Panel>
  );
}

function Payload({ payload, patch }: { payload: Json | null | undefined; patch: string }) {
  if (payload === undefined) return <Loading rows={2} />;
  if (payload === null) return <p class="q">The payload is not JSON, or cannot be read here.</p>;
  const lines = patched(payload, patch) ?? write(payload).split("\n").map((text) => ({ kind: "same" as const, text }));
  return (
    <div class="diff" role="group" aria-label="Payload, with what changes">
      {lines.slice(0, LINES_MAX).map((line, index) => <div key={index} class={line.kind}><span title={line.text}>{line.kind === "del" && <span class="vh">without </span>}{line.kind === "add" && <span class="vh">with </span>}{line.text}</span></div>)}
      {lines.length > LINES_MAX && <div><span class="q">{count(lines.length - LINES_MAX)} more lines</span></div>}
    </div>
  );
}

function Choices({ group, sample, patch, isReadable }: { group: Group; sample: string | undefined; patch: string; isReadable: boolean }) {
  const [scope, setScope] = useState<Scope>("one");
  const [rate, setRate] = useState(5);
  const [percent, setPercent] = useState("20");
  const total = { one: 1, sample: Math.min(SAMPLE, group.count), all: group.count }[scope];
  const choices: [Scope, string, string][] = [["one", "This one", sample?.slice(0, 8) ?? ""], ["sample", `The newest ${SAMPLE} first`, "then ask"], ["all", "All in this group", count(group.count)]];
  function start(): Promise<unknown> {
    if (scope !== "one") {
      const rule = percent.trim() === "" ? {} : { stop_above: Number(percent) / 100 };
      const wanted = { type: group.type, group: group.id, rate, ...rule, ...(scope === "sample" ? { sample: SAMPLE } : { expected: group.count }) };
      return act<ReplayView>("POST", "v1/replays", (started) => `Replay of ${many(started.total, "dead letter")} started.`, { text: replayBody(wanted, patch) });
    }
    if (patch.trim() === "") return act("POST", `v1/dead-letters/${sample}/replay`, "1 dead letter replayed.");
    return act<{ count: number }>("POST", "v1/dead-letters/replay", (reply) => `${many(reply.count, "dead letter")} replayed.`, { text: replayBody({ ids: [sample] }, patch) });
  }
  function go(): unknown {
    if (total <= 1) return start();
    ask({
      title: `Replay ${many(total, "dead letter")}?`, count: total, button: `Replay ${count(total)}`,
      text: `Each becomes a fresh job, ${rate} a second, in about ${duration(total / rate)}. The server does it, also when this page is closed; it can be held and stopped.`,
      onYes: () => void start(),
    });
    return undefined;
  }
  const isOne = scope === "one";
  return (
    <fieldset class="plainset">
      <legend class="vh">How many</legend>
      {choices.map(([value, text, note]) => (
        <label class="choice" key={value}><input type="radio" name="scope" checked={scope === value} onChange={() => setScope(value)} /><span>{text}</span><span class="q sm mono">{note}</span></label>
      ))}
      <label class="stack8 sm"><span>Rate</span>
        <input type="range" min={1} max={50} value={rate} disabled={isOne} onInput={(event) => setRate(Number(event.currentTarget.value))} /></label>
      <b class="sm">{isOne ? "1 job, at once" : `${rate} a second: ${many(total, "job")} in about ${duration(total / rate)}`}</b>
      <label class="row sm"><span>Stop when over</span>
        <input type="number" class="share" aria-label="Stop when more than this percentage fails again; empty: never" min={0} max={100} value={percent} disabled={isOne} onInput={(event) => setPercent(event.currentTarget.value)} />
        <span>% fail again, once 10 have ended</span></label>
      <Act role={locked("operate")} kind="pri big" isOff={!isReadable || (isOne && !sample)} onClick={go}>Replay {count(total)}{!isOne && total > 1 && ` at ${rate} a second`}</Act>
    </fieldset>
  );
}
