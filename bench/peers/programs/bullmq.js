// BullMQ, with jobs removed when they are completed, but for the last thousand.
'use strict'

const { Queue, Worker } = require('bullmq')
const { URL, chunks, handlers, main, takeOrders, waitForGo } = require('./protocol.js')

const CHUNK = 1_000
const CONCURRENCY = 100

const connection = () => ({ url: URL, maxRetriesPerRequest: null })

async function submit() {
  const queue = new Queue('peers', {
    connection: connection(),
    defaultJobOptions: { removeOnComplete: { count: 1_000 } },
  })
  await queue.waitUntilReady()
  await takeOrders({
    one: (task, number) => queue.add(task, { number }),
    async bulk(count) {
      for (const numbers of chunks(count, CHUNK)) {
        await queue.addBulk(numbers.map((number) => ({ name: 'noop', data: { number } })))
      }
    },
  })
  await queue.close()
}

async function work() {
  await waitForGo()
  const worker = new Worker('peers', async (job) => handlers[job.name](job.data.number), {
    connection: connection(),
    concurrency: CONCURRENCY,
  })
  worker.on('error', console.error)
}

main({ prepare: async () => {}, submit, work })
