// The replays that the server does: this page shows and steers them.

import { useQuery } from "../../api/query";
import type { Replays, ReplayView } from "../../api/types";
import { Act, Panel, Time } from "../../parts/basics";
import { many } from "../../pure/format";
import { progressWords, replayWords } from "../../pure/replays";
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
