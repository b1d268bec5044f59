// One job of the list: its state, what it is, and in words what it is doing.

import type { ListedJob } from "../../api/types";
import { Glyph, Link, StateText } from "../../parts/basics";
import { age, between, exact, PRIORITIES, short, stateName } from "../../pure/format";
import { doing } from "../../pure/words";
import { now } from "../../state/clock";

const TAGS_SHOWN = 3;

export function PriorityMark({ value }: { value: number }) {
  const name = `Priority ${value}, ${PRIORITIES[value] ?? ""}`;
  return (
    <svg class="prio" width="14" height="12" viewBox="0 0 14 12" role="img" aria-label={name}>
      <title>{name}</title>
      {[0, 1, 2, 3, 4].map((step) => (
        <rect key={step} class={step < 5 - value ? "on" : "off"} x={step * 3} y={10 - step * 2} width="2" height={2 + step * 2} rx=".5" />
      ))}
    </svg>
  );
}

type Props = {
  job: ListedJob; isPicked: boolean; isCursor: boolean; isGone: boolean; canPick: boolean;
  onPick: (isRange: boolean) => void;
};

export function JobRow({ job, isPicked, isCursor, isGone, canPick, onPick }: Props) {
  return (
    <tr aria-selected={isPicked} class={`${isCursor ? "cursor" : ""} ${isGone ? "gone" : ""}`} data-id={job.id}>
      {canPick && (
        <td class="pick">
          <input type="checkbox" aria-label={`Select ${short(job.id)}`} checked={isPicked}
            onClick={(event) => onPick(event.shiftKey)} />
        </td>
      )}
      <td class="h"><StateText state={job.state} /></td>
      <td class="tr">
        <Link to={`jobs/${job.id}`}>
          <span class="only-phone inl"><Glyph state={job.state} /><span class="vh">{stateName(job.state)}</span></span>
          <b>{job.type}</b>
          <Labels job={job} />
        </Link>
      </td>
      <td class="h mono q">{short(job.id)}</td>
      <td class="h"><PriorityMark value={job.priority} /></td>
      <td class="n">{job.attempt}/{job.max_attempts}</td>
      <td class="tr sub m">{doing(job, now.value)}</td>
      <td class="n h" title={`submitted ${exact(job.created_at)}`}>{age(between(job.created_at, now.value))}</td>
    </tr>
  );
}

/** The payload, as far as it fits; where it cannot be shown, the tags. */
function Labels({ job }: { job: ListedJob }) {
  const tags = Object.entries(job.tags);
  const rest = tags.length - TAGS_SHOWN;
  const words = tags.slice(0, TAGS_SHOWN).map(([name, value]) => ` ${name}=${value}`).join("") + (rest > 0 ? ` +${rest}` : "");
  return <span class="pay no-phone" title={`queue ${job.queue}${words}`}>{job.queue} {job.preview && job.preview !== "{}" ? job.preview : words}</span>;
}
