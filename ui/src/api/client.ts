// Requests to the API. Who asks, a cookie says that no script can read.

import { signal } from "@preact/signals";
import { to } from "./root";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly requestId: string | null = null,
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
  }

  /** The server has no such route: a part of the page that needs it hides. */
  get isMissing(): boolean {
    // Where another method has a path of this shape, it is 405.
    return this.code === "not_found" || this.code === "method_not_allowed";
  }

  /** Nobody answered, or the store did not: what is shown stays, and is told to be old. */
  get isAway(): boolean {
    return this.status === 0 || this.status >= 502 || this.code === "store_unavailable";
  }
}

/** True once the server has refused who we are. */
export const isRefused = signal(false);
/** The server's clock less ours, in milliseconds. */
export const clockOffset = signal(0);

type Options = { body?: unknown; text?: string; signal?: AbortSignal };

/** The text of a reply; throws ApiError. */
export async function requestText(method: string, path: string, options: Options = {}): Promise<string> {
  const body = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  let response: Response;
  try {
    response = await fetch(to(path), {
      method,
      body,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      signal: options.signal,
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "no_answer", "The server does not answer.");
  }
  noteClock(response);
  const text = await response.text();
  if (!response.ok) throw refusal(response, text, path);
  return text;
}

export async function request<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const text = await requestText(method, path, options);
  return (text ? JSON.parse(text) : undefined) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => request<T>("GET", path, { signal });

/** The `Date` header counts whole seconds: take the middle of one, and ignore what is within it. */
function noteClock(response: Response): void {
  const at = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(at)) return;
  const offset = at + 500 - Date.now();
  if (Math.abs(offset - clockOffset.peek()) > 1000) clockOffset.value = Math.abs(offset) < 1000 ? 0 : offset;
}

function refusal(response: Response, text: string, path: string): ApiError {
  let problem: { code?: string; detail?: string; request_id?: string } = {};
  try {
    problem = JSON.parse(text);
  } catch {
    // a proxy answered: its page says nothing to us
  }
  if (response.status === 401 && path !== "v1/session") isRefused.value = true;
  const wait = Number(response.headers.get("retry-after"));
  return new ApiError(
    response.status,
    problem.code ?? `http_${response.status}`,
    problem.detail ?? `The answer was ${response.status}.`,
    problem.request_id ?? response.headers.get("x-request-id"),
    Number.isFinite(wait) && wait > 0 ? wait : null,
  );
}
