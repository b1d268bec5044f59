// Replies of routes that a server may not have yet: a part of a page whose route is missing hides.

export type Me = {
  name: string;
  token_id: string | null;
  by: "token" | "session" | "local";
  roles: string[];
  queues: string[] | null;
  expires_at: string | null;
  app: string | null;
  version: string;
  store: { engine: string; durability: string | null };
  at: string;
};

export type Finding = { level: "ok" | "note" | "warn" | "fail"; code: string; text: string };
export type Doctor = { at: string; findings: Finding[] };

export type AttentionItem = {
  code: string;
  level: "now" | "soon";
  since: string | null;
  count: number;
  target: { kind: "queue" | "type" | "group" | "worker" | "store"; name: string };
  text: string;
};
export type Attention = { at: string; items: AttentionItem[] };

export type Series = {
  at: string;
  start: string;
  step: number;
  series: { metric: string; name: string | null; values: (number | null)[] }[];
};

export type Refusal = {
  at: string;
  operation: string;
  worker: string | null;
  /** Null for workers over HTTP, which send only a token. */
  fence_held: number | null;
  fence_present: number;
};
/** The last few, newest first. */
export type Refusals = { refusals: Refusal[] };

export type DeadGroup = {
  id: string;
  type: string;
  exception: string | null;
  frame: string | null;
  message: string;
  count: number;
  first_at: string;
  last_at: string;
  trend: number[];
  queues: Record<string, number>;
  sample: string[];
};
export type DeadGroups = { at: string; is_complete: boolean; groups: DeadGroup[] };

export type LeaseView = {
  job_id: string;
  type: string;
  queue: string;
  worker: string;
  fence: number;
  attempt: number;
  started_at: string;
  expires_at: string;
  is_expired: boolean;
};
export type Leases = { leases: LeaseView[] };

export type TokenView = {
  id: string;
  name: string;
  roles: string[];
  queues: string[] | null;
  rate: string | number | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
};
export type Tokens = { tokens: TokenView[] };

export type CronRun = { job_id: string; state: string; at: string };
export type FlowEdge = { from: string; to: string; mode?: string };
