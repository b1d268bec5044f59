// The pages, in the order of the side bar.

export type Place = { path: string; name: string; icon: string; key?: string; group: number };

export const PLACES: Place[] = [
  { path: "", name: "Overview", icon: "home", key: "o", group: 0 },
  { path: "jobs", name: "Jobs", icon: "list", key: "j", group: 0 },
  { path: "dead-letters", name: "Dead letters", icon: "mail", key: "d", group: 0 },
  { path: "flows", name: "Flows", icon: "flow", key: "f", group: 0 },
  { path: "queues", name: "Queues & types", icon: "queue", key: "q", group: 1 },
  { path: "workers", name: "Workers", icon: "worker", key: "w", group: 1 },
  { path: "crons", name: "Crons", icon: "cron", key: "c", group: 1 },
  { path: "events", name: "Events", icon: "event", key: "e", group: 1 },
  { path: "tokens", name: "Tokens", icon: "key", group: 2 },
  { path: "audit", name: "Audit", icon: "log", group: 2 },
  { path: "system", name: "System", icon: "sys", group: 2 },
];

export const TABS = ["", "jobs", "dead-letters", "queues"];

export const placeOf = (path: string) => PLACES.find((place) => place.path === path.split("/")[0]);
