import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { openTestStore } from './store.js'
import { start } from './support.js'

const store = openTestStore('operate')
const { holdfastCommand, json } = store
const hostile = '\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\r\nnext'
// What a terminal would act on; line breaks are the layout's own.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/

async function enqueue(queue: string, count = 1): Promise<readonly string[]> {
  const payloads = Array.from({ length: count }, (_, number) => ({ number }))
  return (await store.holdfast.enqueueMany('waits', payloads, { queue })).map(({ id }) => id)
}

describe('jobs list', () => {
  test('filters, chooses columns and leaves the header out', async () => {
    const [id] = await enqueue('listed')
    await enqueue('unlisted')

    const table = await holdfastCommand(['jobs', 'list', '--filter', 'queue:listed payload.number:0'])
    const plain = await holdfastCommand(['jobs', 'list', '--queue', 'listed', '--columns', 'id,state', '--no-header'])

    expect(table.stdout).toMatch(/^id +state +queue +type +attempt +created +error$/m)
    expect(table.stdout).toMatch(new RegExp(`^${id} +ready +listed +waits +0/25 `, 'm'))
    expect(table.stdout.trimEnd().split('\n')).toHaveLength(2)
    expect(plain.stdout).toBe(`${id}  ready\n`)
  })

  test('continues with a cursor, in JSON and in lines', async () => {
    const ids = await enqueue('paged', 3)

    const first = await json(['jobs', 'list', '--queue', 'paged', '--limit', '2'])
    const rest = await holdfastCommand([
      'jobs',
      'list',
      '--queue',
      'paged',
      '--cursor',
      first.cursor as string,
      '--jsonl',
    ])

    expect((first.jobs as { id: string }[]).map(({ id }) => id)).toEqual([ids[2], ids[1]])
    expect(JSON.parse(rest.stdout)).toMatchObject({ schemaVersion: 1, id: ids[0], state: 'ready' })
  })

  test('a wrong filter is shown with a mark under the mistake', async () => {
    const { code, stdout, stderr } = await holdfastCommand(['jobs', 'list', '--filter', 'queue:a state:deed'])

    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toContain('did you mean "dead"?')
    expect(stderr).toMatch(/^ +queue:a state:deed\n {20,}\^$/m)
    expect(stderr).toContain('code:  invalid_filter')
  })

  test('an unknown column is a usage error', async () => {
    const { code, stderr } = await holdfastCommand(['jobs', 'list', '--columns', 'id,nothing'])

    expect(code).toBe(2)
    expect(stderr).toContain('there is no column "nothing"')
  })

  test('nothing is cut where stdout is not a terminal, and nothing hostile reaches it', async () => {
    const [id] = await store.kill('hostile', [`${hostile} ${'long '.repeat(100)}end`])

    const outputs = [
      await holdfastCommand(['jobs', 'list', '--queue', 'hostile', '--wide']),
      await holdfastCommand(['dlq', 'list', '--queue', 'hostile']),
      await holdfastCommand(['dlq', 'groups', '--queue', 'hostile']),
      await holdfastCommand(['jobs', 'explain', id!]),
      await holdfastCommand(['jobs', 'tail', id!]),
      await holdfastCommand(['jobs', 'tail', id!, '--json']),
      await holdfastCommand(['top']),
    ]

    for (const { stdout, stderr } of outputs) {
      expect(stdout).not.toMatch(OBEYED)
      expect(stderr).not.toMatch(OBEYED)
      expect(stdout).toContain('\\u001b[2J')
    }
    expect(outputs[0]!.stdout).toContain('long end')
    expect(outputs[4]!.code).toBe(5)
  })
})

describe('jobs explain', () => {
  test('says why a job does not run, and what to do', async () => {
    const [id] = await enqueue('idle')

    const text = await holdfastCommand(['jobs', 'explain', id!.slice(-8)])
    const answer = await json(['jobs', 'explain', id!])

    expect(text.stdout).toContain('no live worker serves queue "idle"')
    expect(text.stdout).toContain('start a worker')
    expect(answer).toMatchObject({ id, state: 'ready', reasons: [{ code: 'no_worker' }] })
  })
})

describe('jobs edit', () => {
  test('changes the time, the priority and the payload', async () => {
    const [id] = await enqueue('edited')

    const { code, stdout } = await holdfastCommand(
      ['jobs', 'edit', id!, '--priority', '9', '--delay', '1h', '--payload', '-'],
      { input: '{"new":true}' },
    )
    const later = await store.holdfast.get(id!)
    const back = await json(['jobs', 'edit', id!, '--now'])

    expect({ code, stdout }).toEqual({ code: 0, stdout: `${id}\n` })
    expect(later).toMatchObject({ priority: 9, payload: { new: true }, state: 'scheduled' })
    expect(back).toMatchObject({ id, dueInMs: 0 })
    expect((await store.holdfast.get(id!))!.runAt!.getTime()).toBeLessThan(later!.runAt!.getTime())
  })
})

describe('jobs cancel', () => {
  test('by ids it prints those it cancelled, and reports those it did not', async () => {
    const [one, other] = await enqueue('few', 2)
    const unknown = '01890000-0000-7000-8000-000000000000'

    const both = await holdfastCommand(['jobs', 'cancel', one!, unknown, other!, '--by', 'night shift'])
    const again = await holdfastCommand(['jobs', 'cancel', one!, other!])
    const audit = await json(['audit', '--job', one!])

    expect(both).toMatchObject({ code: 6, stdout: `${one}\n${other}\n` })
    expect(both.stderr).toContain('2 cancelled, 1 refused')
    expect(again).toMatchObject({ code: 0 })
    expect(audit).toMatchObject({ entries: [{ action: 'cancel', actor: 'night shift', job: one }] })
  })

  test('by filter it counts first, asks nothing without a terminal, and needs --yes there', async () => {
    await enqueue('bulk', 5)
    const line = ['jobs', 'cancel', '--queue', 'bulk']

    const dry = await holdfastCommand([...line, '--dry-run'])
    const asked = await holdfastCommand(line)
    const untouched = await store.holdfast.count({ queue: 'bulk', state: 'ready' })
    const done = await json([...line, '--yes', '--limit', '4'])

    expect(dry).toMatchObject({ code: 0, stdout: '5 jobs match; 5 can be cancelled\n', stderr: '' })
    expect(asked).toMatchObject({ code: 2, stdout: '' })
    expect(asked.stderr).toContain('there is no terminal to ask on: 5 jobs match')
    expect(asked.stderr).toContain('--yes')
    expect(untouched.count).toBe(5)
    expect(done).toMatchObject({ bulk: { state: 'done', action: 'cancel', done: 4, refused: 0 } })
    expect(await store.holdfast.count({ queue: 'bulk', state: 'cancelled' })).toMatchObject({ count: 4 })
  })

  test.each([
    { line: '', says: 'no jobs are named' },
    { line: '3e8a74 --queue mail', says: 'ids and a filter cannot be combined' },
    { line: '--filter state:dead --dry-run', says: 'cannot be touched by cancel' },
  ])('`jobs cancel $line` is refused', async ({ line, says }) => {
    const { code, stdout, stderr } = await holdfastCommand(['jobs', 'cancel', ...line.split(' ').filter(Boolean)])

    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(says)
  })
})

describe('dlq', () => {
  test('groups dead jobs by their error, and requeues one group', async () => {
    await store.kill('sick', ['timeout', 'timeout', 'timeout', 'no such user'])

    const { groups } = await json(['dlq', 'groups', '--queue', 'sick'])
    const [first] = groups as { fingerprint: string; count: number }[]
    const dry = await json(['dlq', 'requeue', '--fingerprint', first!.fingerprint, '--dry-run'])
    const unknown = await holdfastCommand(['dlq', 'requeue', '--fingerprint', 'nosuch', '--yes'])
    const requeued = await holdfastCommand(['dlq', 'requeue', '--fingerprint', first!.fingerprint.slice(0, 8), '--yes'])
    const bulk = await json(['bulk', 'show', requeued.stdout.trim()])

    expect(first!.count).toBe(3)
    expect(dry).toMatchObject({ dryRun: true, action: 'requeue', matches: 3, can: 3, isExact: true })
    expect(unknown).toMatchObject({ code: 3, stdout: '' })
    expect(requeued.code, requeued.stderr).toBe(0)
    expect(requeued.stderr).toContain('3 requeued')
    expect(bulk).toMatchObject({ bulk: { state: 'done', done: 3 } })
    expect(await store.holdfast.count({ queue: 'sick', state: 'ready' })).toMatchObject({ count: 3 })
  })

  test('a requeue by filter can be slowed down, left running, and ended', async () => {
    await store.kill('slow', ['one', 'two', 'three'])

    const asked = await holdfastCommand([
      ...['dlq', 'requeue', '--queue', 'slow', '--per-second', '1', '--yes', '--no-wait'],
    ])
    const id = asked.stdout.trim()
    const ended = await json(['bulk', 'cancel', id.slice(-8)])
    const again = await holdfastCommand(['bulk', 'cancel', id])
    const listed = await holdfastCommand(['bulk', 'list'])

    expect(asked.code).toBe(0)
    expect(asked.stderr).toContain('workers continue with it')
    expect(ended).toMatchObject({ bulk: { id, state: 'cancelled', perSecond: 1 } })
    expect(again.code).toBe(0)
    expect(listed.stdout).toMatch(new RegExp(`^${id} +cancelled +requeue .* state:dead queue:slow$`, 'm'))
  })

  test('one job is requeued by its id, and another discarded', async () => {
    const [one, other] = await store.kill('single', ['a', 'b'])

    const requeued = await json(['jobs', 'requeue', one!])
    const discarded = await holdfastCommand(['jobs', 'discard', other!])
    const twice = await holdfastCommand(['jobs', 'requeue', one!])

    expect(requeued).toMatchObject({ jobs: [{ id: one, result: 'requeued', requeues: 1 }] })
    expect(discarded).toMatchObject({ code: 0, stdout: `${other}\n` })
    expect(twice.code).toBe(5)
    expect(twice.stderr).toContain('code:  wrong_state')
  })
})

describe('queues', () => {
  test('are paused, resumed and set, and keep settings that are not named', async () => {
    await enqueue('changed')

    const paused = await holdfastCommand(['queues', 'pause', 'changed'])
    const shown = await json(['queues', 'show', 'changed'])
    await holdfastCommand(['queues', 'resume', 'changed'])
    await json(['queues', 'set', 'changed', '--max-attempts', '5', '--timeout', '30s', '--backoff', 'fixed'])
    const set = await json(['queues', 'set', 'changed', '--unset', 'timeout', '--retention', '30d', '--no-jitter'])
    const text = await holdfastCommand(['queues', 'show', 'changed'])

    expect(paused).toMatchObject({ code: 0, stdout: '', stderr: 'queue changed is paused\n' })
    expect(shown).toMatchObject({ queue: { name: 'changed', paused: true, ready: 1 }, workers: [] })
    expect(set).toMatchObject({
      queue: {
        paused: false,
        settings: {
          limits: { maxAttempts: 5, retry: { backoff: 'fixed', jitter: false } },
          retentionMs: 30 * 86_400_000,
        },
      },
    })
    expect((set.queue as { settings: { limits: object } }).settings.limits).not.toHaveProperty('timeoutMs')
    expect(text.stdout).toMatch(/max attempts +5$/m)
    expect(text.stdout).toMatch(/retry +fixed from 1 s, at most 60 min, without jitter$/m)
  })

  test('take `unlimited` for a timeout and an age', async () => {
    await enqueue('endless')

    const set = await json(['queues', 'set', 'endless', '--timeout', 'unlimited', '--max-age', 'unlimited'])

    expect(set).toMatchObject({ queue: { settings: { limits: { timeoutMs: null, maxAgeMs: null } } } })
  })

  test('are listed, with a warning where no worker serves one', async () => {
    await enqueue('unserved')

    const { stdout, stderr } = await holdfastCommand(['queues', 'list'])

    expect(stdout).toMatch(/^unserved +1 +0 +0 +0 +0 +0 /m)
    expect(stderr).toContain('queue unserved has ready jobs and no live worker')
  })

  test('one that does not exist is refused', async () => {
    const { code, stderr } = await holdfastCommand(['queues', 'show', 'nowhere'])

    expect(code).toBe(3)
    expect(stderr).toContain('there is no queue "nowhere"')
  })
})

describe('schedules', () => {
  test('are added, listed, run by hand, paused and removed', async () => {
    const added = await holdfastCommand([
      ...['schedules', 'add', 'nightly', '0 3 * * *', 'report', '{"of":"day"}'],
      ...['--zone', 'Europe/Berlin', '--queue', 'reports', '--overlap', 'skip'],
    ])
    const run = await holdfastCommand(['schedules', 'run', 'nightly'])
    const paused = await json(['schedules', 'pause', 'nightly'])
    const listed = await json(['schedules', 'list'])
    await holdfastCommand(['schedules', 'resume', 'nightly'])
    const next = await json(['schedules', 'next', 'nightly', '--count', '3'])
    const asked = await holdfastCommand(['schedules', 'remove', 'nightly'])
    const removed = await json(['schedules', 'remove', 'nightly', '--yes'])
    const gone = await holdfastCommand(['schedules', 'next', 'nightly'])

    expect(added).toMatchObject({ code: 0, stdout: 'nightly\n' })
    expect(await store.holdfast.get(run.stdout.trim())).toMatchObject({ type: 'report', payload: { of: 'day' } })
    expect(paused).toMatchObject({ schedule: 'nightly', paused: true })
    expect(listed).toMatchObject({ schedules: [{ name: 'nightly', zone: 'Europe/Berlin', paused: true }] })
    expect(next).toMatchObject({ cron: '0 3 * * *', zone: 'Europe/Berlin', times: { length: 3 } })
    expect(asked.code).toBe(2)
    expect(removed).toMatchObject({ removed: 'nightly' })
    expect(gone.code).toBe(3)
  })

  test('options left out when one is added again keep their values; another type has the defaults', async () => {
    const report = defineJob('report', { version: 2, timeout: '5m', retry: { backoff: ['1s', '2h'] }, tags: ['r'] })
    const settings = { zone: 'Europe/Berlin', queue: 'reports', payload: { of: 'day' }, priority: 4 }
    const made = await store.holdfast.schedule('weekly', { ...settings, cron: '0 3 * * 1', job: report })

    const later = await json(['schedules', 'add', 'weekly', '0 4 * * 1', 'report', '--priority', '5'])
    const other = await json(['schedules', 'add', 'weekly', '0 4 * * 1', 'letter'])

    const { nextAt: _, ...unmoved } = made
    expect(later).toMatchObject({ schedule: { ...unmoved, cron: '0 4 * * 1', priority: 5 } })
    expect(other).toMatchObject({
      schedule: { type: 'letter', zone: 'UTC', queue: 'default', payload: null, version: 1, priority: 0, tags: [] },
    })
  })

  test('the next times of an expression need no store', async () => {
    const line = ['schedules', 'next', '--cron', '30 2 * * *', '--zone', 'Europe/Berlin', '--count', '2']

    const { code, stdout } = await holdfastCommand(line, { env: { HOLDFAST_URL: 'postgres://127.0.0.1:1/none' } })

    expect(code).toBe(0)
    expect(stdout).toMatch(/^\S+T\S+Z {2}\d{4}-\d\d-\d\d 02:30:00 Europe\/Berlin.*\n\S+T/)
  })
})

describe('keys', () => {
  test('are made with a secret that is shown once, listed without it, and revoked', async () => {
    const line = ['keys', 'create', 'shop', '--scope', 'enqueue,read', '--queue', 'orders', '--expires-in', '1d']
    const made = await holdfastCommand(line)
    const secret = made.stdout.trim()
    const key = await store.holdfast.authenticate(secret)
    const listed = await holdfastCommand(['keys', 'list'])
    const asked = await holdfastCommand(['keys', 'revoke', key!.id])
    const revoked = await json(['keys', 'revoke', key!.id, '--yes'])

    expect(key).toMatchObject({ name: 'shop', scopes: ['enqueue', 'read'], queues: ['orders'] })
    expect(made.stderr).not.toContain(secret)
    expect(listed.stdout).toMatch(/shop +valid +enqueue,read +orders/)
    expect(listed.stdout).not.toContain(secret)
    expect(asked.code).toBe(2)
    expect(revoked).toMatchObject({ key: { id: key!.id } })
    // Revoked by another process: this one remembers keys for 5 s.
    await expect.poll(() => store.holdfast.authenticate(secret), { timeout: 15_000 }).toBeNull()
  }, 30_000)

  test('an unknown scope is a usage error', async () => {
    const { code, stderr } = await holdfastCommand(['keys', 'create', 'shop', '--scope', 'everything'])

    expect(code).toBe(2)
    expect(stderr).toContain('Allowed choices are read, read:payload, enqueue, work, operate, delete, admin.')
  })
})

describe('tail', () => {
  test('prints changes of jobs and actions of operators as JSON lines, until Ctrl-C', async () => {
    const following = start(['tail', '--queue', 'followed', '--every', '250ms'], store.at)
    await following.line(/^following/)

    const [id] = await enqueue('followed')
    await following.line(new RegExp(`"id":"${id}".*"from":null,"state":"ready"`))
    await store.holdfast.cancel(id!, { by: 'somebody' })
    await following.line(new RegExp(`"id":"${id}".*"from":"ready","state":"cancelled"`))
    const acted = await following.line(/"operator\.acted"/)
    following.signal('SIGINT')
    const { code, stdout } = await following.ended

    expect(code).toBe(0)
    expect(JSON.parse(acted)).toMatchObject({ schemaVersion: 1, actor: 'somebody', action: 'cancel', job: id })
    for (const line of stdout.trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('event')
  })

  test('jobs tail follows one job to its end', async () => {
    const [id] = await enqueue('watched')
    const following = start(['jobs', 'tail', id!, '--every', '250ms'], store.at)
    await following.line(/waits .* ready, attempt 0 of 25$/)

    await store.holdfast.cancel(id!)
    const { code, stdout } = await following.ended

    expect(code).toBe(5)
    expect(stdout).toMatch(/cancelled, attempt 0 of 25$/m)
  })

  test('jobs tail prints the log of an attempt between its start and its end', async () => {
    let finish = () => {}
    const logging = defineJob('logging', { queue: 'logging' }).handle((_, ctx) => {
      ctx.log('half way')
      return new Promise<void>((resolve) => {
        finish = resolve
      })
    })
    const worker = store.holdfast.worker({ handlers: [logging] })
    await worker.start()
    const { id } = await store.holdfast.enqueue('logging', null, { queue: 'logging' })
    await expect.poll(async () => (await store.holdfast.get(id))?.logs.length, { timeout: 15_000 }).toBe(1)

    const following = start(['jobs', 'tail', id, '--every', '250ms'], store.at)
    await following.line(/half way$/)
    finish()
    const { code, stdout } = await following.ended
    await worker.stop()

    expect(code).toBe(0)
    expect(stdout).toMatch(/running, attempt 1 of 25\n.* half way\n.* succeeded, attempt 1 of 25\n$/)
  })
})

describe('stats, workers and top', () => {
  test('stats sums up what happened', async () => {
    const answer = await json(['stats', '--since', '10m'])
    const text = await holdfastCommand(['stats', '--since', '10m', '--columns', 'queue,ready'])

    expect(answer).toMatchObject({ total: { isExact: true }, happened: { dead: expect.any(Number) } })
    expect(text.stdout).toMatch(/^since \S+Z: \d+ enqueued, /m)
  })

  test('workers are listed while they run', async () => {
    const lively = defineJob('lively', { queue: 'lively' })
    const worker = store.holdfast.worker({ handlers: [lively.handle(() => 1)], name: 'night' })
    const none = await holdfastCommand(['workers', 'list'])
    await worker.start()

    const one = await holdfastCommand(['workers', 'list'])
    await worker.stop()

    expect(none).toMatchObject({ code: 0, stdout: '' })
    expect(none.stderr).toContain('no worker is running')
    expect(one.stdout).toMatch(/^night\S* +works +0\/10 +- +lively /m)
  })

  test('top prints one frame where stdout is not a terminal, and one document as JSON', async () => {
    const frame = await holdfastCommand(['top'])
    const answer = await json(['top'])

    expect(frame.code).toBe(0)
    expect(frame.stdout).toMatch(/^holdfast top {2}\d\d:\d\d:\d\d {2}postgres:/)
    expect(frame.stdout).toMatch(/^ready \d+ {3}running 0 /m)
    expect(frame.stdout).toMatch(/^queue +ready +running /m)
    expect(answer).toMatchObject({ overview: { queues: expect.any(Array) }, workers: [], groups: expect.any(Array) })
  })
})
