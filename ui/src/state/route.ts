// The address: which page, and its parameters. Links are plain links; clicks on them stay here.

import { computed, signal } from "@preact/signals";
import { ROOT, to } from "../api/root";

const address = signal({ path: location.pathname, search: location.search });

export const path = computed(() => {
  const full = address.value.path;
  return full.startsWith(ROOT) ? full.slice(ROOT.length).replace(/\/$/, "") : "";
});
export const search = computed(() => address.value.search);
export const params = computed(() => new URLSearchParams(address.value.search));

function read(): void {
  address.value = { path: location.pathname, search: location.search };
}

/** Go to a page, given from the root. */
export function go(target: string, { replace = false, keepsScroll = false } = {}): void {
  const href = to(target);
  if (href === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  read();
  if (!keepsScroll) scrollTo(0, 0);
}

/** Change parameters of the present address; null removes one. */
export function setParams(changes: Record<string, string | null>): void {
  const query = new URLSearchParams(search.peek());
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(path.peek() + (text ? `?${text}` : ""), { replace: true, keepsScroll: true });
}

addEventListener("popstate", read);
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(ROOT) || link.hash || link.dataset.plain !== undefined) return;
  event.preventDefault();
  go(link.pathname.slice(ROOT.length) + link.search);
});
