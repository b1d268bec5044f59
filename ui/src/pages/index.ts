// Which page is at which path; with a slash at its end, the page of one thing.

import type { ComponentType } from "preact";
import { Job } from "./job";
import { Jobs } from "./jobs";

export const PAGES: Record<string, ComponentType<{ id: string }>> = {
  jobs: Jobs,
  "jobs/": Job,
};
