// One message at a time, at the foot of the page; with what undoes it, for eight seconds.

import { signal } from "@preact/signals";

export type Toast = { text: string; isBad?: boolean; undo?: () => void };

export const toast = signal<Toast | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, options: Omit<Toast, "text"> = {}): void {
  toast.value = { text, ...options };
  clearTimeout(timer);
  timer = setTimeout(() => (toast.value = null), options.undo || options.isBad ? 8000 : 3000);
}

export function dismiss(): void {
  toast.value = null;
}
