// What the programs of all peers written in JavaScript do alike: see protocol.py.
'use strict'

const fs = require('node:fs')
const readline = require('node:readline')

const URL = process.env.PEERS_URL
const NAP_MS = Number(process.env.PEERS_NAP ?? '2') * 1000
const STRIDE = 20
const RATE = 300
const [PAUSE_MIN, PAUSE_MAX] = [5, 25]

const file = fs.openSync(process.env.PEERS_TRACE, 'a')
let ran = 0

// Date.now() knows milliseconds only.
const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000)
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const note = (what, number) => fs.writeSync(file, `${what} ${number} ${nowUs()}\n`)

const handlers = {
  noop() {
    ran += 1
    if (ran === 1 || ran % STRIDE === 0) fs.writeSync(file, `ran ${process.pid} ${ran} ${nowUs()}\n`)
  },
  mark(number) {
    note('began', number)
  },
  async nap(number) {
    note('began', number)
    await sleep(NAP_MS)
    note('ended', number)
  },
}

const orders = {
  async singles(sender, count) {
    const start = performance.now()
    for (let number = 0; number < count; number++) await sender.one('noop', number)
    return { seconds: (performance.now() - start) / 1000 }
  },
  async bulk(sender, count) {
    const start = performance.now()
    await sender.bulk(count)
    return { seconds: (performance.now() - start) / 1000 }
  },
  async idle(sender, count, first) {
    const calls = []
    for (let number = first; number < first + count; number++) {
      await sleep(PAUSE_MIN + Math.random() * (PAUSE_MAX - PAUSE_MIN))
      calls.push([number, nowUs()])
      await sender.one('mark', number)
    }
    return { calls }
  },
  // On time, whether or not the calls before have returned.
  async steady(sender, count, first) {
    const start = performance.now()
    const [calls, underWay] = [[], []]
    for (let number = first; number < first + count; number++) {
      const wait = start + ((number - first) * 1000) / RATE - performance.now()
      if (wait > 0) await sleep(wait)
      calls.push([number, nowUs()])
      underWay.push(sender.one('mark', number))
    }
    await Promise.all(underWay)
    return { calls }
  },
  async naps(sender, count, first) {
    for (let number = first; number < first + count; number++) await sender.one('nap', number)
    return {}
  },
}

async function takeOrders(sender) {
  const lines = readline.createInterface({ input: process.stdin })
  console.log('ready')
  for await (const line of lines) {
    const order = JSON.parse(line)
    console.log(JSON.stringify(await orders[order.do](sender, order.count, order.first ?? 0)))
  }
}

// From then on the end of standard input ends the process: none outlives the bench.
function waitForGo() {
  process.stdin.on('end', () => process.exit(0))
  const told = new Promise((done) => process.stdin.once('data', done))
  console.log('ready')
  return told
}

function* chunks(count, size) {
  for (let start = 0; start < count; start += size) {
    yield Array.from({ length: Math.min(size, count - start) }, (_, index) => start + index)
  }
}

// The role is the last word of the command line: prepare, submit or work.
function main(roles) {
  roles[process.argv.at(-1)]().catch((error) => {
    console.error(error)
    process.exit(1)
  })
}

module.exports = { URL, handlers, chunks, takeOrders, waitForGo, main }
