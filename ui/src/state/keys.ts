// Shortcuts. A page adds its own while it is shown; none works while somebody types.

import { useLayoutEffect } from "preact/hooks";
import { PLACES } from "./places";
import { go } from "./route";
import { isPaused } from "./live";
import { toggleTheme } from "./theme";
import { signal } from "@preact/signals";

export const isPaletteOpen = signal(false);
export const isHelpOpen = signal(false);

type Keys = Record<string, (event: KeyboardEvent) => void>;

const pages = new Set<{ current: Keys }>();
let goesAt = 0;

/** Shortcuts of a page: `j`, `Shift+j`, `Enter`. */
export function useKeys(keys: Keys): void {
  // Before the next key can come: two of them may mean more than one twice.
  useLayoutEffect(() => {
    const held = { current: keys };
    pages.add(held);
    return () => void pages.delete(held);
  });
}

const everywhere: Keys = {
  t: toggleTheme,
  p: () => (isPaused.value = !isPaused.value),
  "?": () => (isHelpOpen.value = true),
  g: (event) => (goesAt = event.timeStamp),
};

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input:not([type=checkbox]),textarea,select,dialog") !== null;
}

/** Enter and Space on a button or a link are its own. */
const isPressed = (event: KeyboardEvent) =>
  (event.key === "Enter" || event.key === " ") && (event.target as Element).closest?.("button,a,summary,input") !== null;

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    isPaletteOpen.value = !isPaletteOpen.value;
    return;
  }
  if (isPaletteOpen.value || isHelpOpen.value) return; // it may not be drawn yet
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || isPressed(event)) return;
  if (goesAt && event.timeStamp - goesAt < 1500) {
    goesAt = 0;
    const place = PLACES.find((each) => each.key === event.key);
    if (place) return go(place.path);
  }
  const isLetter = /^[A-Z]$/.test(event.key);
  const name = event.shiftKey && isLetter ? `Shift+${event.key.toLowerCase()}` : event.key;
  for (const keys of [...[...pages].map((each) => each.current), everywhere]) {
    const found = keys[name];
    if (found) {
      event.preventDefault();
      return found(event);
    }
  }
});

export const SHORTCUTS: [string, string][] = [
  ["Ctrl K", "search, go somewhere, do something"],
  ["g then o j d f q w c e", "go to a page"],
  ["/", "filter jobs; Esc leaves it"],
  ["j k", "next and previous row"],
  ["↵", "open the row"],
  ["x", "select the row; with Shift j k extend"],
  ["a", "select the page, again: all that match"],
  ["n", "show new rows"],
  ["[ ]", "previous and next job of the list"],
  ["p", "pause live updates"],
  ["t", "light or dark"],
  ["?", "this list"],
];
