// pg-boss: woken by NOTIFY, batches, no pause while a batch comes back full, heartbeats.
'use strict'

const { PgBoss } = require('pg-boss')
const { URL, chunks, handlers, main, takeOrders, waitForGo } = require('./protocol.js')

const CHUNK = 5_000
const TASKS = ['noop', 'mark', 'nap']
const QUEUE = { notify: true, heartbeatSeconds: 30 }
const WORK = { batchSize: 500, localConcurrency: 2, burstWhenBatchFull: true }

function open() {
  const boss = new PgBoss({ connectionString: URL, useListenNotify: true, max: 10 })
  boss.on('error', console.error)
  return boss
}

async function prepare() {
  const boss = open()
  await boss.start()
  for (const task of TASKS) await boss.createQueue(task, QUEUE)
  await boss.stop({ graceful: false })
}

async function submit() {
  const boss = open()
  await boss.start()
  await takeOrders({
    one: (task, number) => boss.send(task, { number }),
    async bulk(count) {
      for (const numbers of chunks(count, CHUNK)) {
        await boss.insert('noop', numbers.map((number) => ({ data: { number } })))
      }
    },
  })
  await boss.stop({ graceful: false })
}

async function work() {
  const boss = open()
  await boss.start()
  await waitForGo()
  for (const task of TASKS) {
    await boss.work(task, WORK, (jobs) =>
      Promise.all(jobs.map(async (job) => handlers[task](job.data.number))),
    )
  }
}

main({ prepare, submit, work })
