// Where the dashboard is mounted: below any prefix, known from the address of its own script.

/** The path of the root, with a slash at its end: `/`, or `/queue/` below a mount. */
export const ROOT: string = import.meta.env.DEV ? "/" : new URL(/* @vite-ignore */ "..", import.meta.url).pathname;

/** The address of the root, for commands to copy. */
export const BASE: string = new URL(ROOT, location.origin).href;

/** The address of a page or a route of the API, given from the root: `jobs/…`, `v1/jobs`. */
export const to = (path: string) => ROOT + path.replace(/^\//, "");
