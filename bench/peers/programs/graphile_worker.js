// graphile-worker, with the settings that its manual names for speed: see worker below.
'use strict'

const { Logger, makeWorkerUtils, run, runMigrations } = require('graphile-worker')
const { URL, chunks, handlers, main, takeOrders, waitForGo } = require('./protocol.js')

const CHUNK = 5_000
const preset = {
  worker: {
    connectionString: URL,
    concurrentJobs: 24,
    maxPoolSize: 25,
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    localQueue: { size: 500 },
    logger: new Logger(() => () => {}),
  },
}

const taskList = {
  noop: async (payload) => handlers.noop(payload.number),
  mark: async (payload) => handlers.mark(payload.number),
  nap: (payload) => handlers.nap(payload.number),
}

async function submit() {
  const utils = await makeWorkerUtils({ connectionString: URL })
  await takeOrders({
    one: (task, number) => utils.addJob(task, { number }),
    async bulk(count) {
      for (const numbers of chunks(count, CHUNK)) {
        await utils.addJobs(numbers.map((number) => ({ identifier: 'noop', payload: { number } })))
      }
    },
  })
  await utils.release()
}

async function work() {
  await waitForGo()
  const runner = await run({ preset, taskList })
  await runner.promise
}

main({ prepare: () => runMigrations({ connectionString: URL }), submit, work })
