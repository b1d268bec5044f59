// That something is paused, and by whom: read once for a page, and only if something is paused.

import { type ComponentChildren, createContext } from "preact";
import { useContext } from "preact/hooks";
import type { PauseView, Pauses } from "../api/types";
import { useQuery } from "../api/query";
import { pausedBy } from "../pure/words";
import { now } from "../state/clock";
import { Warning } from "./basics";

const Known = createContext<PauseView[]>([]);

export function WithPauses({ isNeeded, children }: { isNeeded: boolean; children: ComponentChildren }) {
  const read = useQuery<Pauses>(isNeeded ? "v1/pauses" : null, { every: 10, pace: 5 });
  return <Known.Provider value={read.data?.pauses ?? []}>{children}</Known.Provider>;
}

export function Paused({ kind, name }: { kind: PauseView["kind"]; name: string }) {
  const found = useContext(Known).find((each) => each.kind === kind && each.name === name);
  return <Warning state="plain" icon="pause">Paused{pausedBy(found, now.value)}</Warning>;
}
