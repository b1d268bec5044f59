// Who is signed in, by a session that the server keeps in a cookie.

import { computed, signal } from "@preact/signals";
import { ApiError, get, isRefused, request } from "./client";
import type { Me } from "./types";

/** Undefined until the server has said. */
export const me = signal<Me | undefined>(undefined);

export const needsSignIn = computed(() => isRefused.value);

/** Whether to offer what needs *role*. */
export const may = (role: string) => me.value?.roles.some((each) => each === role || each === "admin") ?? false;

export const rolesText = () => {
  const roles = me.value?.roles ?? [];
  return roles.includes("admin") ? "admin" : roles.join(", ");
};

/** Ask who we are. Throws ApiError if nobody can say now. */
export async function lookAround(): Promise<void> {
  try {
    me.value = await get<Me>("v1/me");
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
}

/** Sign in with a token; throws ApiError if it is refused. */
export async function signIn(text: string): Promise<void> {
  await request("POST", "v1/session", { body: { token: text } });
  isRefused.value = false;
  await lookAround();
}

export async function signOut(): Promise<void> {
  await request("DELETE", "v1/session").catch(() => undefined);
  me.value = undefined;
  isRefused.value = true;
}
