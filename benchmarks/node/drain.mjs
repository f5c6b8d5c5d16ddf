// One worker process of a peer on Node (NAME URL), or the filling of its queue (fill-NAME URL COUNT).
// The tally is the one of benchmarks/_tally.py: a line each 5 ms on a named pipe.

import { openSync, writeSync } from 'node:fs'

const [name, url, count] = process.argv.slice(2)
const FILL_BATCH = 5000
const settings = JSON.parse(process.env.BENCHMARK_SETTINGS ?? '{}') // those of benchmarks/_peers.py
let ran = 0

function report () {
  const pipe = openSync(process.env.BENCHMARK_TALLY, 'w')
  let told = 0
  writeSync(pipe, `${process.pid} 0\n`) // here I am
  setInterval(() => {
    if (ran !== told) writeSync(pipe, `${process.pid} ${told = ran}\n`)
  }, 5)
}

async function inBatches (store) {
  for (let left = Number(count); left > 0; left -= FILL_BATCH) {
    await store(Array.from({ length: Math.min(FILL_BATCH, left) }))
  }
}

// Settings: https://worker.graphile.org/docs/performance
async function graphile () {
  const { run } = await import('graphile-worker')
  report()
  await run({
    preset: {
      worker: {
        connectionString: url,
        ...settings,
        logger: await silence()
      }
    },
    taskList: { noop: async () => { ran++ } }
  })
}

async function silence () {
  const { Logger } = await import('graphile-worker')
  return new Logger(() => () => {}) // a line a job on the terminal is not what is measured
}

async function fillGraphile () {
  const { makeWorkerUtils } = await import('graphile-worker')
  const utils = await makeWorkerUtils({ connectionString: url, logger: await silence() })
  await utils.migrate()
  await inBatches(batch => utils.addJobs(batch.fill({ identifier: 'noop', payload: {} })))
  await utils.release()
}

async function boss () {
  const { default: PgBoss } = await import('pg-boss')
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false })
  boss.on('error', error => { throw error })
  await boss.start()
  return boss
}

async function pgBoss () {
  const queue = await boss()
  report()
  for (;;) {
    const jobs = await queue.fetch('noop', { batchSize: settings.batchSize })
    if (jobs.length === 0) {
      await new Promise(resolve => setTimeout(resolve, 50))
      continue
    }
    ran += jobs.length
    await queue.complete('noop', jobs.map(job => job.id))
  }
}

async function fillPgBoss () {
  const queue = await boss()
  await queue.createQueue('noop')
  await inBatches(batch => queue.insert(batch.fill({ name: 'noop', data: {} })))
  await queue.stop({ graceful: false })
}

await { graphile, 'fill-graphile': fillGraphile, 'pg-boss': pgBoss, 'fill-pg-boss': fillPgBoss }[name]()
if (name.startsWith('fill-')) process.exit(0)
