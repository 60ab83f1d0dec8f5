// Schedules: cron with a time zone. Any number of processes may run this; each tick becomes one job.

import assert from 'node:assert/strict'
import { connect, defineJob } from 'holdfast'

const report = defineJob<{ region: string }>('report')

const holdfast = await connect()

// Creates the schedule, or changes the one with that name. Call it at every start.
await holdfast.schedule('morning-report', {
  cron: '30 9 * * 1-5',
  zone: 'Europe/Berlin',
  job: report,
  payload: { region: 'EU' },
  catchUp: 'latest', // after a time without any process, one run for all that were missed
  overlap: 'skip', // no second one while the first still runs
})

const inBerlin = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'Europe/Berlin',
  weekday: 'short',
  hour: '2-digit',
  minute: '2-digit',
})
for (const run of await holdfast.nextRuns('morning-report', 3)) {
  console.log(inBerlin.format(run))
  assert.match(inBerlin.format(run), /^(Mon|Tue|Wed|Thu|Fri),? 09:30$/)
}

// A field in front for seconds.
await holdfast.schedule('every-second', { cron: '* * * * * *', job: report, payload: { region: 'US' } })

const ran = new Promise<string>((resolve) => {
  const worker = holdfast.worker({ handlers: [report.handle(({ region }, ctx) => resolve(`${region} ${ctx.id}`))] })
  void worker.start()
})
const [region, id] = (await ran).split(' ')
const job = await holdfast.get(id!)
console.log(`${region} ran for ${job?.schedule?.name}`)
assert.equal(job?.schedule?.name, 'every-second')

for (const name of ['morning-report', 'every-second']) await holdfast.unschedule(name)
await holdfast.close()
