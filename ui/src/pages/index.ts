// Which page is at which path; with a slash at its end, the page of one thing.

import type { ComponentType } from "preact";
import { Audit } from "./audit";
import { Crons } from "./crons";
import { DeadLetters } from "./dead";
import { Events } from "./events";
import { FlowPage, Flows } from "./flow";
import { Job } from "./job";
import { Jobs } from "./jobs";
import { Overview } from "./overview";
import { Queues } from "./queues";
import { System } from "./system";
import { Tokens } from "./tokens";
import { Workers } from "./workers";

export const PAGES: Record<string, ComponentType<{ id: string }>> = {
  "": Overview,
  jobs: Jobs,
  "jobs/": Job,
  flows: Flows,
  "flows/": FlowPage,
  "dead-letters": DeadLetters,
  queues: Queues,
  workers: Workers,
  crons: Crons,
  events: Events,
  tokens: Tokens,
  audit: Audit,
  system: System,
};
