// Who is signed in. A session cookie where the server makes one, else the token as a bearer.

import { computed, signal } from "@preact/signals";
import { ApiError, get, isRefused, keepToken, request, token } from "./client";
import type { Me } from "./planned";

/** Undefined until the server has said; null: it knows us, but has no route to say who we are. */
export const me = signal<Me | null | undefined>(undefined);
/** The roles that a refusal has taught us we lack, where the server cannot say. */
const lacks = signal<ReadonlySet<string>>(new Set());

export const needsSignIn = computed(() => isRefused.value);

/** Whether to offer what needs *role*; where the roles are not known, until it is refused. */
export function may(role: string): boolean {
  if (lacks.value.has(role)) return false;
  const roles = me.value?.roles;
  return roles === undefined || roles.includes(role) || roles.includes("admin");
}

export function noteRefusal(error: unknown, role: string): void {
  if (error instanceof ApiError && error.status === 403 && error.message.includes(`lacks role`)) {
    lacks.value = new Set([...lacks.peek(), role]);
  }
}

export const rolesText = () => {
  const roles = me.value?.roles;
  if (roles === undefined) return lacks.value.has("operate") ? "read" : "";
  return roles.includes("admin") ? "admin" : roles.join(", ");
};

/** Ask who we are. Throws ApiError if nobody can say now. */
export async function lookAround(): Promise<void> {
  try {
    me.value = await get<Me>("v1/me");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) return;
    if (!error.isMissing) throw error;
    await get("v1/queues").catch((other: unknown) => {
      if (!(other instanceof ApiError) || other.status !== 401) throw other;
    });
    if (!isRefused.peek()) me.value = null;
  }
}

/** Sign in with a token; throws ApiError if it is refused. */
export async function signIn(text: string): Promise<void> {
  keepToken(null);
  try {
    await request("POST", "v1/session", { body: { token: text } });
  } catch (error) {
    if (!(error instanceof ApiError) || !error.isMissing) throw error;
    await withBearer(text);
  }
  lacks.value = new Set();
  isRefused.value = false;
  await lookAround();
}

/** A server without sessions: try the token, and keep it for this tab. */
async function withBearer(text: string): Promise<void> {
  token.value = text;
  try {
    await get("v1/queues");
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) {
      token.value = null;
      throw error;
    }
  }
  keepToken(text);
}

export async function signOut(): Promise<void> {
  await request("DELETE", "v1/session").catch(() => undefined);
  keepToken(null);
  me.value = undefined;
  isRefused.value = true;
}
