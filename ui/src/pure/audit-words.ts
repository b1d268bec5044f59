// A record of the audit log in words.

type Value = unknown;

/** "max_running 24; roles read, operate": what is null or empty is left out. */
export function detailWords(detail: Record<string, Value> | undefined): string {
  if (typeof detail?.why === "string") return detail.why; // a refusal says it in words
  return Object.entries(detail ?? {}).filter(([, value]) => !isEmpty(value)).map(([name, value]) => wordsOf(name, value)).join("; ");
}

const isEmpty = (value: Value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);

function wordsOf(name: string, value: Value): string {
  if (value === true) return name;
  if (Array.isArray(value)) return `${name} ${value.map(plain).join(", ")}`;
  return `${name} ${plain(value)}`;
}

const plain = (value: Value): string => (typeof value === "string" ? value : JSON.stringify(value));

const VERBS: Record<string, string> = {
  cancel: "cancelled", create: "created", discard: "discarded", edit: "changed", forget: "forgot", hold: "held", limit: "limited", pause: "paused",
  rate: "set the rate of", replay: "replayed", resume: "resumed", retry: "retried", revoke: "revoked", run: "ran", start: "started", stop: "stopped",
};

/** "paused queue" for queue.pause: what stands behind it is its name. What is not known stays as it is. */
export function actionWords(action: string): string {
  const [kind, verb] = action.split(".");
  const past = VERBS[verb ?? ""];
  return past ? `${past} ${kind === "app" ? "all queues" : kind!.replaceAll("_", " ")}` : action;
}

/** How it was answered; without a status it was done on the command line or in code. */
export function answerWords(status: number | null | undefined): string {
  if (status === null || status === undefined || status < 300) return "done";
  if (status === 403) return "refused";
  if (status === 409) return "conflict";
  return status >= 500 ? `failed, ${status}` : `refused, ${status}`;
}
