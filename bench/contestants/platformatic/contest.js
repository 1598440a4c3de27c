// @platformatic/job-queue on Redis, measured as bench/contest.py says.
//
//     node contest.js enqueue|work URL JOBS
import { Queue, RedisStorage } from '@platformatic/job-queue'

const CALLERS = 128 // calls under way; it has none that enqueues many at once
const CONCURRENCY = 64 // 256 and 1,024 were slower
const PAYLOAD = { to: 'user@example.com', n: 12345 }

const [what, url, count] = process.argv.slice(2)
const jobs = Number(count)
const queue = new Queue({ storage: new RedisStorage({ url }), concurrency: CONCURRENCY })

function say (started) {
  console.log(JSON.stringify({ seconds: (performance.now() - started) / 1000 }))
}

if (what === 'enqueue') {
  await queue.start()
  let next = 0
  async function call () {
    while (next < jobs) await queue.enqueue(`job-${next++}`, PAYLOAD)
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: CALLERS }, call))
  say(started)
  process.exit(0)
} else {
  let started
  let done = 0
  queue.on('completed', () => {
    if (++done === jobs) {
      say(started)
      process.exit(0)
    }
  })
  queue.execute(async () => {
    started ??= performance.now()
    return {} // it can't keep nothing
  })
  await queue.start()
}
