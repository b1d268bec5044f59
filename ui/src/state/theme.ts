// Light or dark: the system's choice until somebody makes another.

import { signal } from "@preact/signals";

const KEPT = "fencepost.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function kept(): "light" | "dark" | null {
  try {
    const value = localStorage.getItem(KEPT);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null;
  }
}

const chosen = kept();
if (chosen) document.documentElement.dataset.theme = chosen;

export const isDark = signal(chosen ? chosen === "dark" : system.matches);

system.addEventListener("change", () => {
  if (!document.documentElement.dataset.theme) isDark.value = system.matches;
});

export function toggleTheme(): void {
  isDark.value = !isDark.value;
  const name = isDark.value ? "dark" : "light";
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem(KEPT, name);
  } catch {
    // not kept, then
  }
}
