// The time by the server's clock, once a second; it stands still while the page is hidden.

import { computed, signal } from "@preact/signals";
import { clockOffset } from "../api/client";

const ticks = signal(Date.now());

setInterval(() => {
  if (!document.hidden) ticks.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) ticks.value = Date.now();
});

/** Milliseconds, as `Date.now()`. */
export const now = computed(() => ticks.value + clockOffset.value);
/** What the server's clock said at *local*, as `Date.now()`. */
export const serverTime = (local: number) => local + clockOffset.peek();
/** The same to the millisecond, not observed. */
export const rightNow = () => Date.now() + clockOffset.peek();
