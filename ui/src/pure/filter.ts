// The filter of the jobs page. The address is the filter: each condition is a parameter of it.

export type Condition = { field: string; value: string };

type Field = { api: string; isMany?: boolean; hint: string };

export const FIELDS: Record<string, Field> = {
  state: { api: "state", isMany: true, hint: "running, retrying, dead_letter …" },
  queue: { api: "queue", hint: "name of a queue" },
  type: { api: "type", hint: "name of a task" },
  tag: { api: "tag", isMany: true, hint: "name:value" },
  id: { api: "id_prefix", hint: "how its id begins" },
  flow: { api: "flow", hint: "id of a flow" },
  correlation: { api: "correlation_id", hint: "correlation id" },
  priority: { api: "priority", isMany: true, hint: "critical, high, normal, low, bulk" },
  key: { api: "key", hint: "idempotency key" },
  error: { api: "error", hint: "class, code, or words of the message" },
  where: { api: "where", isMany: true, hint: "payload.user.id=42" },
  since: { api: "created_after", hint: "15m, 24h, 7d, or a time" },
  before: { api: "created_before", hint: "1h, 7d, or a time" },
  order: { api: "order", hint: "newest or oldest first" },
};

/** Conditions without an index: the server reads jobs one by one, the newest 10,000 for an answer. */
const LOOKED = ["priority", "error", "where"];

export const isLooked = (conditions: Condition[]) => conditions.some(({ field }) => LOOKED.includes(field));

/** What selects jobs: the order does not. */
export const selecting = (conditions: Condition[]) => conditions.filter(({ field }) => field !== "order");

export const isOldestFirst = (conditions: Condition[]) =>
  conditions.some(({ field, value }) => field === "order" && value === "oldest");

/** What is typed or linked may be called like something that every object inherits. */
export const isField = (name: string) => Object.hasOwn(FIELDS, name);

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A time, or how long ago: 15m. Null if it is neither. */
export function timeOf(text: string, now: number): string | null {
  const ago = /^(\d{1,6})\s*([smhd])$/.exec(text.trim());
  if (ago) return new Date(now - Number(ago[1]) * UNITS[ago[2]!]! * 1000).toISOString();
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}

/** Read the conditions of an address; unknown parameters are no conditions. */
export function readFilter(search: string): Condition[] {
  const found: Condition[] = [];
  for (const [field, value] of new URLSearchParams(search)) {
    if (isField(field) && value) found.push({ field, value });
  }
  return found;
}

export function writeFilter(conditions: Condition[]): string {
  const query = new URLSearchParams(conditions.map(({ field, value }) => [field, value]));
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Add a condition; of a field that can have one value, it replaces the other. */
export function withCondition(conditions: Condition[], added: Condition): Condition[] {
  const isMany = FIELDS[added.field]?.isMany;
  const rest = conditions.filter(
    ({ field, value }) => field !== added.field || (isMany && value !== added.value),
  );
  return [...rest, added];
}

const ID = /^[0-9a-f]{4,}[0-9a-f-]*$/i;

const WHERE = /^((?:payload|result|checkpoint|progress|failure)(?:\.[^.:=!<>]+)*)\s*(!=|<=|>=|=|<|>|:)([^]*)$/;

/** What a person typed, as a condition: `field:value`, `payload.path:value`, the start of an id, or else a type. */
export function readText(text: string): Condition | null {
  const typed = text.trim();
  if (!typed) return null;
  const where = WHERE.exec(typed);
  if (where) {
    const [, path, compare, rest] = where;
    const value = rest!.trim();
    return value ? { field: "where", value: `${path!.trim()}${compare === ":" ? "=" : compare}${value}` } : null;
  }
  const colon = typed.indexOf(":");
  const field = colon < 0 ? "" : typed.slice(0, colon);
  if (isField(field)) {
    const value = typed.slice(colon + 1).trim();
    return value ? { field, value } : null;
  }
  if (colon > 0) return { field: "tag", value: typed };
  return ID.test(typed) ? { field: "id", value: typed.toLowerCase() } : { field: "type", value: typed };
}

/** The query of `GET /v1/jobs`. */
export function jobsQuery(conditions: Condition[], now: number): URLSearchParams {
  const query = new URLSearchParams();
  for (const { field, value } of conditions) {
    const api = FIELDS[field]!.api;
    const isTime = field === "since" || field === "before";
    query.append(api, isTime ? (timeOf(value, now) ?? value) : value);
  }
  return query;
}

/** Parameters with several values, and what a body calls them. */
const MANY: Record<string, string> = { state: "state", where: "where", priority: "priorities" };

/** The body of `POST /v1/jobs/cancel` and its kin. */
export function selectionBody(conditions: Condition[], now: number): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  const tags: Record<string, string> = {};
  for (const [name, value] of jobsQuery(selecting(conditions), now)) {
    if (name === "tag") {
      const colon = value.indexOf(":");
      tags[decodeURIComponent(value.slice(0, colon))] = value.slice(colon + 1);
    } else if (MANY[name]) body[MANY[name]] = [...((body[MANY[name]] as string[]) ?? []), value];
    else body[name] = value;
  }
  return Object.keys(tags).length ? { ...body, tags } : body;
}

/** Whether the store keeps counters for these conditions, so that counting costs nothing. */
export function isCounted(conditions: Condition[]): boolean {
  return conditions.every(({ field }) => ["state", "type", "queue"].includes(field));
}
