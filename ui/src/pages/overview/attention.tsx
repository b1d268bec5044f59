import type { Item } from "../../api/types";
import { Act, Icon, Link, Time } from "../../parts/basics";
import { sentence } from "../../pure/format";
import { stateOf, titleOf } from "../../pure/attention";
import { locked, setPaused } from "../../state/actions";

const ICONS: Record<string, string> = { paused: "pause", doctor: "info" };

export function AttentionList({ items }: { items: Item[] }) {
  if (!items.length) return null;
  return (
    <section class="panel" aria-label="What needs attention">
      {items.map((item, index) => {
        const state = stateOf(item);
        const title = titleOf(item);
        return (
          <div class={`att s-${state} ${item.level === "now" ? "" : "low"}`} key={`${item.code}${item.target.name}${index}`}>
            <Icon name={ICONS[item.code] ?? "alert"} state={state} />
            <div class="tr"><b>{title}</b>{title !== item.text && <div class="m sm tr" title={item.text}>{sentence(item.text)}.</div>}</div>
            <span class="since">{item.since && <Time at={item.since} />}</span>
            <Next item={item} />
          </div>
        );
      })}
    </section>
  );
}

/** The one thing to do about it. */
function Next({ item }: { item: Item }) {
  const name = encodeURIComponent(item.target.name);
  if (item.code === "paused") {
    const kind = item.target.kind === "type" ? "types" : "queues";
    return <Act role={locked("operate")} onClick={() => setPaused(kind, item.target.name, false)}>Resume</Act>;
  }
  if (item.code === "dead_letters_rising") return <Link class="btn pri" to={item.target.kind === "group" ? `dead-letters?group=${name}` : `dead-letters?type=${name}`}>Open</Link>;
  if (item.target.kind === "worker") return <Link class="btn" to="workers">Look</Link>;
  if (item.target.kind === "store") return <Link class="btn" to={item.code === "leases_expired" ? "jobs?state=running" : "system"}>Look</Link>;
  return <Link class="btn" to={`jobs?${item.target.kind}=${name}${item.code === "no_worker" ? "&state=scheduled" : ""}`}>Show jobs</Link>;
}
