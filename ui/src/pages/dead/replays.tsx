// Replays at a rate: the server does them, this page starts, shows and steers them.

import { useState } from "preact/hooks";
import { useQuery } from "../../api/query";
import type { Group, Replays, ReplayView } from "../../api/types";
import { Act, Panel, Time } from "../../parts/basics";
import { ask } from "../../parts/dialog";
import { count, duration, many } from "../../pure/format";
import { isObject, progressWords, replayBody, replayWords } from "../../pure/replays";
import { act, locked } from "../../state/actions";

const SHOWN_MAX = 5;
const isUnderWay = (replay: ReplayView) => replay.state === "running" || replay.state === "held";

/** The replays under way, and the last that are over. */
export function ReplaysPanel() {
  const found = useQuery<Replays>("v1/replays", { every: 2, pace: 1 });
  const replays = found.data?.replays ?? [];
  const active = replays.filter(isUnderWay);
  const shown = [...active, ...replays.filter((each) => !isUnderWay(each))].slice(0, Math.max(SHOWN_MAX, active.length));
  if (!shown.length) return null;
  return (
    <Panel title="Replays" note={active.length ? `${many(active.length, "replay")} under way; the server goes on without this page` : "none under way"}>
      <ul class="body stack8 plainset" aria-label="Replays">{shown.map((each) => <ReplayRow key={each.id} replay={each} />)}</ul>
    </Panel>
  );
}

function ReplayRow({ replay }: { replay: ReplayView }) {
  const gone = Object.values(replay.skipped).reduce((sum, each) => sum + each, 0);
  const steer = (verb: string, done: string) => act("POST", `v1/replays/${replay.id}/${verb}`, done);
  const isHeld = replay.state === "held";
  const role = locked("operate");
  return (
    <li class="stack8">
      <div class="row wrap">
        <b>{replay.type ?? "All types"}</b><span>{replayWords(replay)}</span>
        <span class="q sm">by {replay.started_by}, <Time at={replay.started_at} /></span><span class="grow" />
        {isUnderWay(replay) && <>
          <Act role={role} onClick={() => steer(isHeld ? "resume" : "hold", isHeld ? "The replay goes on." : "The replay is held.")}>{isHeld ? "Resume" : "Hold"}</Act>
          <Act role={role} kind="danger" onClick={() => steer("stop", "The replay is stopped.")}>Stop</Act>
        </>}
      </div>
      <progress class="prog" max={Math.max(replay.total, 1)} value={replay.state === "done" ? Math.max(replay.total, 1) : replay.replayed + gone} aria-label={`Progress of the replay of ${replay.type ?? "all types"}`} />
      <span class="sm" role="status">{progressWords(replay)}</span>
    </li>
  );
}

type Scope = "one" | "sample" | "all";
const SAMPLE = 10;

/** How many of a group to replay, how fast, and when to stop. */
export function ReplayPanel({ group, sample }: { group: Group; sample: string | undefined }) {
  const [scope, setScope] = useState<Scope>("one");
  const [rate, setRate] = useState(5);
  const [percent, setPercent] = useState("20");
  const [patch, setPatch] = useState("");
  const total = { one: 1, sample: Math.min(SAMPLE, group.count), all: group.count }[scope];
  const choices: [Scope, string, string][] = [["one", "This one", sample?.slice(0, 8) ?? ""], ["sample", `The newest ${SAMPLE} first`, ""], ["all", "All in this group", count(group.count)]];
  const isReadable = patch.trim() === "" || isObject(patch);
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
  return (
    <Panel title="Replay" note="each replay is a fresh job, linked to the old one">
      <fieldset class="body stack8 plainset">
        <legend class="vh">How many</legend>
        {choices.map(([value, text, note]) => (
          <label class="choice" key={value}><input type="radio" name="scope" checked={scope === value} onChange={() => setScope(value)} /><span>{text}</span><span class="q sm mono">{note}</span></label>
        ))}
        <label class="stack8 sm"><span>Change these fields of the payload first, as JSON; empty: none</span>
          <textarea rows={2} class="mono" spellcheck={false} value={patch} placeholder='{"currency": "EUR"}' aria-invalid={!isReadable} onInput={(event) => setPatch(event.currentTarget.value)} /></label>
        {scope !== "one" && <>
          <label class="stack8 sm"><span>Rate: {rate} a second{total > 1 && `, about ${duration(total / rate)}`}</span>
            <input type="range" min={1} max={50} value={rate} onInput={(event) => setRate(Number(event.currentTarget.value))} /></label>
          <label class="stack8 sm"><span>Stop if more than this percentage fails again, once 10 have ended; empty: never</span>
            <input type="number" min={0} max={100} value={percent} onInput={(event) => setPercent(event.currentTarget.value)} /></label>
        </>}
        {!isReadable && <p class="sm c s-refused" role="alert">The fields are not a JSON object.</p>}
        <div><Act role={locked("operate")} kind="pri big" isOff={!isReadable || (scope === "one" && !sample)} onClick={go}>Replay {count(total)}{total > 1 && ` at ${rate} a second`}</Act></div>
      </fieldset>
    </Panel>
  );
}
