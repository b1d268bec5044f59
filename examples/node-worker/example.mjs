// Two handlers, and the worker that runs them: node example.mjs
import { PermanentError, work } from "./worker.mjs";

await work({
  async send_mail({ to, subject }, ctx) {
    if (!to.includes("@")) throw new PermanentError(`${to} is no address`);
    console.log(`${ctx.job.id}: attempt ${ctx.job.attempt} at ${subject} for ${to}`);
    return { sent: true };
  },

  async import_rows({ url }, ctx) {
    const rows = (await (await fetch(url, { signal: ctx.signal })).text()).split("\n");
    for (let done = ctx.lastCheckpoint ?? 0; done < rows.length; done += 100) {
      ctx.signal.throwIfAborted();
      await ctx.checkpoint(done); // where the next attempt begins, should this one not end
      ctx.progress(done / rows.length, `${done} of ${rows.length} rows`);
    }
  },
});
