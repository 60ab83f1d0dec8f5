// Flow control on the command line: limits, groups, queues, and what holds jobs up.

import { describe, expect, test, vi } from 'vitest'

import { flowChecks } from '../../src/cli/doctor/flow-checks.js'
import { byUrgency, standingOf } from '../../src/cli/output/flow.js'
import { defineJob } from '../../src/client/define-job.js'
import { DropJob } from '../../src/core/definition.js'
import type { BreakerView, GroupView, LimitView } from '../../src/core/flow/views.js'
import { openTestStore } from './store.js'
import { startInTerminal } from './support.js'

// Each test starts several processes; on a busy machine each takes seconds.
vi.setConfig({ testTimeout: 180_000 })

const store = openTestStore('flow')
const { holdfastCommand, json } = store

const NOW = Date.UTC(2026, 10, 18, 3)

/** A limit that bounds nothing and holds nothing up, but for the changes. */
function limitWith(name: string, changes: Partial<LimitView> = {}): LimitView {
  const none = { concurrency: null, rate: null, adaptive: null, tokens: null, until: null, level: null, breaker: null }
  return { name, origin: 'operator', running: 0, ...none, ...changes }
}

function breakerWith(changes: Partial<BreakerView>): BreakerView {
  const settings = { failures: 0.5, of: 20, withinMs: 30_000, cooldownMs: 15_000, probes: 3 }
  const closed = { position: 'closed', since: new Date(NOW - 180_000), probeAt: null, opens: 0, forced: null } as const
  return { settings, ...closed, ok: 0, failed: 0, history: [], ...changes }
}

const RATE = { limit: 100, perMs: 1_000, burst: 100, counts: 'starts' } as const
const HELD_OPEN = limitWith('ledger', { breaker: breakerWith({ position: 'open', forced: 'open' }) })
const OPEN = limitWith('stripe', {
  breaker: breakerWith({ position: 'open', probeAt: new Date(NOW + 12_000), opens: 2, ok: 6, failed: 34 }),
})

describe('what a limit does to its jobs', () => {
  test.each([
    [HELD_OPEN, 'HELD OPEN', 'an operator has held the breaker open for 3 min'],
    [OPEN, 'OPEN', '34 of 40 failed; open for 3 min, opened 2 times in a row; probed in 12 s'],
    [
      limitWith('a', { breaker: breakerWith({ position: 'half_open' }) }),
      'HALF OPEN',
      'probes have tried it out for 3 min',
    ],
    [limitWith('a', { until: new Date(NOW + 40_000) }), 'told to wait', 'nothing starts for 40 s'],
    [limitWith('a', { concurrency: 5, running: 5 }), 'full', '5 of 5 run'],
    [limitWith('a', { concurrency: 5, running: 8 }), 'full', 'it was lowered, and these run to their end'],
    [limitWith('a', { adaptive: { min: 2, max: 9 }, level: 4, running: 4 }), 'full', '4 of 4 run'],
    [limitWith('a', { rate: RATE, tokens: 0 }), 'no tokens', 'its rate of 100/s is used up'],
    [limitWith('a', { breaker: breakerWith({ forced: 'closed' }) }), 'held closed', 'failures do not open it'],
    [limitWith('a', { concurrency: 5, running: 4, rate: RATE, tokens: 1 }), 'ok', ''],
    [limitWith('a', { until: new Date(NOW - 1) }), 'ok', ''],
  ])('%# is said in a few words', (limit, state, why) => {
    const standing = standingOf(limit, NOW)

    expect(standing.state).toBe(state)
    expect(standing.why).toContain(why)
  })

  test('is listed with the worst first', () => {
    const limits = [
      limitWith('ok'),
      limitWith('full', { concurrency: 1, running: 1 }),
      OPEN,
      limitWith('told', { until: new Date(NOW + 1) }),
      HELD_OPEN,
    ]

    expect(byUrgency(limits, NOW).map(({ name }) => name)).toEqual(['ledger', 'stripe', 'told', 'full', 'ok'])
  })
})

describe('doctor', () => {
  const stopped: GroupView & { queue: string } = {
    ...{ queue: 'orders', group: "o'hara", ready: 2, running: 0, paused: true, stoppedBy: 'some-id', until: null },
    override: null,
  }

  test('finds nothing where nothing holds jobs up', () => {
    expect(flowChecks({ limits: [limitWith('a')], stopped: [] }, null, NOW)).toMatchObject([
      { name: 'flow control', level: 'ok' },
    ])
  })

  test('names open breakers, forced ones first, long waits, stopped groups and taken definitions', () => {
    const limits = [
      OPEN,
      HELD_OPEN,
      limitWith('slow', { until: new Date(NOW + 3_600_000) }),
      limitWith('short', { until: new Date(NOW + 1_000) }),
      limitWith('type:charge'),
    ]

    const checks = flowChecks({ limits, stopped: [stopped] }, null, NOW)

    expect(checks.map(({ name, level }) => [name, level])).toEqual([
      ['breakers', 'warning'],
      ['waits', 'warning'],
      ['groups', 'warning'],
      ['definitions', 'ok'],
    ])
    expect(checks[0]!.text).toMatch(/ledger: an operator.*stripe: 34 of 40/)
    expect(checks[0]!.fix[0]).toMatch(/^holdfast limits release ledger /)
    expect(checks[1]!.text).toMatch(/slow for 60 min$/)
    expect(checks[2]!.fix[1]).toBe(`holdfast groups resume orders 'o'\\''hara'`)
    expect(checks[3]!.text).toContain('type:charge')
  })

  test('warns about a held breaker, a stopped group and a full queue of a real store', async () => {
    await store.holdfast.setLimit('doctored', {})
    await store.holdfast.openBreaker('doctored')
    await store.holdfast.setQueue('narrow', { maxDepth: 1 })
    await store.holdfast.enqueue('a', {}, { queue: 'narrow' })
    const id = await killInGroup('strict', 'acme')

    // The server of the tests does without fsync, which doctor does not let pass.
    const { checks } = (await json(['doctor'], 7)) as { checks: { name: string; text: string; fix: string[] }[] }
    const found = (name: string) => checks.find((check) => check.name === name)
    await store.holdfast.releaseBreaker('doctored')

    expect(found('breakers')?.text).toContain('doctored: an operator has held the breaker open')
    expect(found('groups')?.fix).toContain(`holdfast jobs requeue ${id}  # or discard`)
    expect(found('depth')?.text).toContain('narrow has its 1 ready jobs')
  })
})

/** Kills a job of an ordered group that stops for its dead. */
async function killInGroup(queue: string, group: string): Promise<string> {
  await store.holdfast.setQueue(queue, { groups: { ordered: true, onDead: 'stop' } })
  const doomed = defineJob<object>('doomed_in_order', { queue })
  const { id } = await store.holdfast.enqueue(doomed, {}, { group })
  const handler = doomed.handle(() => {
    throw new DropJob('no')
  })
  const worker = store.holdfast.worker({ queues: [queue], handlers: [handler] })
  await worker.start()
  await store.holdfast.wait(id, { timeout: '20s' }).catch(() => {})
  await worker.stop()
  return id
}

describe('limits', () => {
  test('a new one needs --create, and a mistyped one is refused with the closest name', async () => {
    const refused = await holdfastCommand(['limits', 'set', 'stripe', '--concurrency', '20'])
    const made = await json([
      ...['limits', 'set', 'stripe', '--concurrency', '20', '--rate', '100/s', '--create', '--by', 'ada'],
    ])
    const typo = await holdfastCommand(['limits', 'show', 'stirpe'])

    expect(refused).toMatchObject({ code: 3, stdout: '' })
    expect(refused.stderr).toContain('add --create to make it')
    expect(made).toMatchObject({ limit: { name: 'stripe', concurrency: 20, rate: { limit: 100, burst: 100 } } })
    expect(typo.code).toBe(3)
    expect(typo.stderr).toContain('did you mean stripe?')
    expect(await json(['audit', '--action', 'set limit', '--actor', 'ada'])).toMatchObject({
      entries: [{ actor: 'ada', target: 'stripe' }],
    })
  })

  test('settings that are not named stay, and none takes one away', async () => {
    const set = (...words: string[]) => json(['limits', 'set', 'mailer', ...words])
    await set('--create', '--concurrency', '2-50', '--rate', '20/10s', '--burst', '5', '--breaker-cooldown', '5s')
    await set('--breaker-cooldown-max', '20s')

    expect(await set('--rate', '40/10s')).toMatchObject({
      limit: {
        adaptive: { min: 2, max: 50 },
        rate: { limit: 40, perMs: 10_000, burst: 5 },
        breaker: { settings: { failures: 0.5, cooldownMs: 5_000, cooldownMaxMs: 20_000, probes: 3 } },
      },
    })
    expect(await set('--breaker-failures', '75%', '--counts', 'cost')).toMatchObject({
      limit: { rate: { limit: 40, counts: 'cost' }, breaker: { settings: { failures: 0.75, cooldownMs: 5_000 } } },
    })
    const unbound = (await set('--breaker-cooldown-max', 'none')) as { limit: { breaker: { settings: object } } }
    expect(unbound.limit.breaker.settings).not.toHaveProperty('cooldownMaxMs')
    expect(await set('--concurrency', 'none', '--rate', 'none', '--breaker', 'none')).toMatchObject({
      limit: { concurrency: null, adaptive: null, rate: null, breaker: null },
    })
  })

  test.each([
    [['--rate', 'fast'], 'It must be a rate such as 100/s'],
    [['--concurrency', '5-'], 'two such as 2-50'],
    [['--concurrency', '0'], 'must be a whole number from 1 to 100000'],
    [['--concurrency', '9-2'], 'concurrency.max must be'],
    [['--burst', '5'], 'there is no rate for --burst: give one with --rate'],
    [['--breaker', 'off'], 'Allowed choices are on, none.'],
    [['--breaker', 'none', '--breaker-of', '3'], '--breaker none takes the breaker away'],
    [['--breaker-failures', 'half'], 'It must be a part such as 0.5 or 50%.'],
    [['--counts', 'money'], 'Allowed choices are starts, cost.'],
  ])('%j is a usage error', async (words, says) => {
    const { code, stdout, stderr } = await holdfastCommand(['limits', 'set', 'refused', '--create', ...words])

    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(says)
  })

  test('the limit of a queue is set with the queue', async () => {
    const { code, stderr } = await holdfastCommand(['limits', 'set', 'queue:mail', '--create', '--concurrency', '1'])

    expect(code).toBe(2)
    expect(stderr).toContain('belongs to a queue')
  })

  test('list shows what is closed and why, the worst first, and how to let it go', async () => {
    await store.holdfast.setLimit('calm', { concurrency: 3, rate: '5/m' })
    await store.holdfast.setLimit('held', {})
    await store.holdfast.openBreaker('held')

    const table = await holdfastCommand(['limits', 'list'])
    const holding = await json(['limits', 'list', '--holding'])
    const shown = await holdfastCommand(['limits', 'show', 'held'])
    await store.holdfast.releaseBreaker('held')

    const [head, first] = table.stdout.split('\n')
    expect(head).toMatch(/^limit +state +running +rate +tokens +why$/)
    expect(first).toMatch(/^held +HELD OPEN +0 +- +- +an operator has held the breaker open for /)
    expect(table.stdout).toMatch(/^calm +ok +0\/3 +5\/m +5 +-$/m)
    expect(table.stderr).toContain('`holdfast limits release held`')
    expect(holding).toMatchObject({ limits: [{ name: 'held' }] })
    expect(shown.stdout).toMatch(/^held {2}HELD OPEN$/m)
    expect(shown.stdout).toMatch(/^ {2}forced +open$/m)
  })

  test('a breaker is held open after a yes, held closed, and released', async () => {
    await store.holdfast.setLimit('forced', {})
    const line = ['limits', 'open', 'forced']

    const unasked = await holdfastCommand(line)
    const asked = startInTerminal(line, store.at)
    await asked.text(/Hold limit forced open\?.*\[y\/N\]/)
    asked.type('n\r')
    await asked.ended
    const before = await json(['limits', 'show', 'forced'])
    const opened = await json([...line, '--yes', '--by', 'runbook-12'])
    const closed = await json(['limits', 'close', 'forced'])
    const released = await holdfastCommand(['limits', 'release', 'forced'])

    expect(unasked).toMatchObject({ code: 2, stdout: '' })
    expect(unasked.stderr).toContain('this needs a yes')
    expect(before).toMatchObject({ limit: { breaker: null } })
    expect(opened).toMatchObject({ limit: { breaker: { position: 'open', forced: 'open' } } })
    expect(closed).toMatchObject({ limit: { breaker: { forced: 'closed' } } })
    expect(released).toMatchObject({ code: 0, stdout: '' })
    expect(await json(['audit', '--action', 'force breaker', '--actor', 'runbook-12'])).toMatchObject({
      entries: [{ target: 'forced' }],
    })
  })

  test('one that jobs name is not removed', async () => {
    await store.holdfast.setLimit('named', {})
    const { id } = await store.holdfast.enqueue('a', {}, { queue: 'naming', limits: ['named'] })

    const unasked = await holdfastCommand(['limits', 'remove', 'named'])
    const refused = await holdfastCommand(['limits', 'remove', 'named', '--yes'])
    await store.holdfast.cancel(id)
    const removed = await json(['limits', 'remove', 'named', '--yes'])

    expect(unasked.code).toBe(2)
    expect(refused.code).toBe(5)
    expect(refused.stderr).toContain('code:  limit_in_use')
    expect(removed).toMatchObject({ removed: 'named' })
  })
})

describe('queues set', () => {
  test('sets flow control, keeps what is not named, and takes away with none', async () => {
    const set = (...words: string[]) => json(['queues', 'set', 'flowing', ...words])
    await set('--create', '--max-attempts', '3', '--concurrency', '50', '--rate', '500/s', '--burst', '50')
    await set('--max-depth', '1000', '--on-full', 'wait', '--aging', '1m', '--group-rate', '10/s', '--ordered')

    const changed = await set('--on-dead', 'stop', '--group-max-depth', '100', '--timeout', '10s')
    const less = await set('--rate', 'none', '--no-ordered', '--aging', 'none', '--max-depth', 'none')
    const shown = await holdfastCommand(['queues', 'show', 'flowing'])

    expect(changed).toMatchObject({
      queue: {
        settings: {
          limits: { maxAttempts: 3, timeoutMs: 10_000 },
          flow: {
            ...{ concurrency: 50, rate: { limit: 500, burst: 50 }, maxDepth: 1_000, onFull: 'wait', agingMs: 60_000 },
            groups: { rate: { limit: 10 }, ordered: true, onRetry: 'wait', onDead: 'stop', maxDepth: 100 },
          },
        },
      },
    })
    expect(less).toMatchObject({
      queue: {
        settings: {
          limits: { maxAttempts: 3, timeoutMs: 10_000 },
          flow: {
            ...{ concurrency: 50, rate: null, maxDepth: null, agingMs: null },
            groups: { ordered: false, onDead: 'continue', maxDepth: 100 },
          },
        },
      },
    })
    expect(shown.stdout).toMatch(/^ {2}concurrency +50$/m)
    expect(shown.stdout).toMatch(/^ {2}each group +rate 10\/s, max depth 100$/m)
  })

  test('what goes together is checked, and a bad line changes nothing', async () => {
    await store.holdfast.setQueue('kept', { concurrency: 5 })

    const { code, stderr } = await holdfastCommand(['queues', 'set', 'kept', '--on-retry', 'pass'])
    const unset = await holdfastCommand(['queues', 'set', 'kept', '--unset', 'rate'])

    expect(code).toBe(2)
    expect(stderr).toContain('groups.onRetry is for ordered groups')
    expect(unset.stderr).toContain('--rate none')
    expect(await json(['queues', 'show', 'kept'])).toMatchObject({ queue: { settings: { flow: { concurrency: 5 } } } })
  })
})

describe('queues show', () => {
  test('says what holds the queue up now', async () => {
    await store.holdfast.setLimit('shut', {})
    await store.holdfast.openBreaker('shut')
    await store.holdfast.setQueue('stuck', { maxDepth: 2 })
    await store.holdfast.pauseGroup('stuck', 'slow')
    await store.holdfast.enqueue('a', {}, { queue: 'stuck', group: 'acme', limits: ['shut'] })
    await store.holdfast.enqueue('a', {}, { queue: 'stuck', group: 'acme' })

    const { stdout } = await holdfastCommand(['queues', 'show', 'stuck'])
    const { holds } = (await json(['queues', 'show', 'stuck'])) as { holds: string[] }
    await store.holdfast.releaseBreaker('shut')

    expect(stdout).toMatch(/^ {2}held up by +it has its 2 ready jobs: enqueues are refused$/m)
    expect(holds).toEqual([
      'it has its 2 ready jobs: enqueues are refused',
      '1 group is paused: slow',
      expect.stringContaining('the breaker of limit "shut" is held open'),
    ])
  })
})

describe('groups', () => {
  test('are listed by name, page by page, and those with settings alone', async () => {
    for (const group of ['c', 'a', 'b']) await store.holdfast.enqueue('a', {}, { queue: 'grouped', group })
    await json(['groups', 'set', 'grouped', 'b', '--concurrency', '10', '--weight', '3'])

    const first = await json(['groups', 'list', 'grouped', '--limit', '2'])
    const rest = await json(['groups', 'list', 'grouped', '--cursor', first.cursor as string])
    const own = await holdfastCommand(['groups', 'list', 'grouped', '--own', '--columns', 'group,state,settings'])

    expect(first).toMatchObject({ groups: [{ group: 'a', ready: 1 }, { group: 'b' }], cursor: 'b' })
    expect(rest).toMatchObject({ groups: [{ group: 'c' }], cursor: null })
    expect(own.stdout).toMatch(/^group +state +settings\nb +waits +concurrency 10, weight 3\n$/)
  })

  test('settings that are not named stay; clear takes all of them away', async () => {
    await store.holdfast.enqueue('a', {}, { queue: 'own', group: 'acme' })
    await json(['groups', 'set', 'own', 'acme', '--concurrency', '10', '--weight', '3'])

    const changed = await json(['groups', 'set', 'own', 'acme', '--rate', '5/s', '--concurrency', 'none'])
    const shown = await holdfastCommand(['groups', 'show', 'own', 'acme'])
    const cleared = await json(['groups', 'clear', 'own', 'acme'])

    expect(changed).toMatchObject({ group: { override: { concurrency: null, rate: { limit: 5 }, weight: 3 } } })
    expect(shown.stdout).toMatch(/^ {2}own settings +rate 5\/s, weight 3$/m)
    expect(cleared).toMatchObject({ queue: 'own', groups: [{ group: 'acme', override: null }] })
  })

  test('are paused and resumed, several in one call', async () => {
    await store.holdfast.enqueue('a', {}, { queue: 'paused', group: 'one' })

    const paused = await holdfastCommand(['groups', 'pause', 'paused', 'one', 'two words'])
    const list = await holdfastCommand(['groups', 'list', 'paused'])
    const resumed = await json(['groups', 'resume', 'paused', 'one', 'two words'])

    expect(paused).toMatchObject({ code: 0, stdout: '' })
    expect(list.stdout).toMatch(/^two words +paused/m)
    expect(resumed).toMatchObject({ groups: [{ paused: false }, { paused: false }] })
  })

  test('one stopped by a dead job shows the job, and goes on when it is resumed', async () => {
    const id = await killInGroup('strict2', 'acme')

    const list = await holdfastCommand(['groups', 'list', 'strict2'])
    const resumed = await json(['groups', 'resume', 'strict2', 'acme'])

    expect(list.stdout).toMatch(new RegExp(`^acme +STOPPED .*${id}`, 'm'))
    expect(resumed).toMatchObject({ groups: [{ stoppedBy: null }] })
  })

  test('of a queue that does not exist are refused', async () => {
    const { code, stdout } = await holdfastCommand(['groups', 'pause', 'nowhere', 'acme'])

    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect((await store.holdfast.queues()).map(({ name }) => name)).not.toContain('nowhere')
  })
})

describe('jobs', () => {
  test('are enqueued under flow control, shown with it, and explained', async () => {
    await store.holdfast.setLimit('typed', {})
    await store.holdfast.openBreaker('typed')
    const { id } = await json([
      ...['enqueue', 'charge', '{}', '--queue', 'typed', '--group', 'acme', '--limit', 'typed', '--cost', '7'],
    ])

    const shown = await holdfastCommand(['jobs', 'show', id as string])
    const explained = await json(['jobs', 'explain', id as string])
    await store.holdfast.releaseBreaker('typed')

    expect(shown.stdout).toMatch(/^ {2}group +acme$/m)
    expect(shown.stdout).toMatch(/^ {2}limits +typed$/m)
    expect(shown.stdout).toMatch(/^ {2}cost +7$/m)
    expect((explained.reasons as { code: string }[]).map(({ code }) => code)).toContain('breaker_open')
  })

  test('with a limit nobody has set, or in a full queue, are refused with what to do', async () => {
    await store.holdfast.setQueue('tight', { maxDepth: 1 })
    await store.holdfast.enqueue('a', {}, { queue: 'tight' })

    const unknown = await holdfastCommand(['enqueue', 'a', '--limit', 'unheard-of'])
    const full = await holdfastCommand(['enqueue', 'a', '--queue', 'tight', '--on-full', 'reject'])

    expect(unknown).toMatchObject({ code: 3, stdout: '' })
    expect(unknown.stderr).toContain('holdfast limits set <name> --create')
    expect(full).toMatchObject({ code: 5, stdout: '' })
    expect(full.stderr).toContain('code:  queue_full')
  })

  test('of one key are throttled', async () => {
    const line = ['enqueue', 'digest', '--queue', 'digests', '--throttle', 'user:7', '--throttle-for', '1h']
    const first = await json(line)

    const second = await json(line)
    const alone = await holdfastCommand(['enqueue', 'digest', '--throttle', 'user:7'])
    const both = await holdfastCommand(['enqueue', 'a', '--replace', 'x', '--key', 'x'])
    const late = await holdfastCommand(['enqueue', 'a', '--debounce-max-wait', '1m'])

    expect(first).toMatchObject({ created: true })
    expect(second).toMatchObject({ id: first.id, created: false })
    for (const { code } of [alone, both, late]) expect(code).toBe(2)
    expect(alone.stderr).toContain('--throttle <key> and --throttle-for <duration> belong together')
  })

  test('are listed, cancelled and requeued by their group', async () => {
    const one = await store.holdfast.enqueue('a', {}, { queue: 'tenants', group: 'acme' })
    const other = await store.holdfast.enqueue('a', {}, { queue: 'tenants', group: 'other' })
    const dead = await killInGroup('tenants-dead', 'acme')

    const listed = await holdfastCommand([
      'jobs',
      'list',
      '--queue',
      'tenants',
      '--group',
      'acme',
      '--columns',
      'id,group',
    ])
    const dlq = await json(['dlq', 'list', '--queue', 'tenants-dead', '--group', 'acme'])
    const nobody = await json(['dlq', 'list', '--queue', 'tenants-dead', '--group', 'other'])
    const cancelled = await holdfastCommand(['jobs', 'cancel', '--queue', 'tenants', '--group', 'acme', '--yes'])
    const requeued = await holdfastCommand(['dlq', 'requeue', '--queue', 'tenants-dead', '--group', 'acme', '--yes'])

    expect(listed.stdout).toMatch(new RegExp(`^id +group\n${one.id} +acme\n$`))
    expect(dlq).toMatchObject({ jobs: [{ id: dead }] })
    expect(nobody).toMatchObject({ jobs: [] })
    expect([cancelled.code, requeued.code], cancelled.stderr + requeued.stderr).toEqual([0, 0])
    const states = await Promise.all([one.id, other.id, dead].map(async (id) => (await store.holdfast.get(id))!.state))
    expect(states).toEqual(['cancelled', 'ready', 'ready'])
  })
})

describe('stats and top', () => {
  test('show the limits that hold jobs up', async () => {
    await store.holdfast.setLimit('jammed', {})
    await store.holdfast.openBreaker('jammed')

    const stats = await holdfastCommand(['stats'])
    const counted = await json(['stats'])
    const top = await holdfastCommand(['top'])
    await store.holdfast.releaseBreaker('jammed')
    const after = await holdfastCommand(['top'])

    expect(stats.stderr).toMatch(/^limited: jammed HELD OPEN: an operator/m)
    expect(counted.limits).toMatchObject([{ name: 'jammed' }])
    expect(top.stdout).toMatch(/^limits that hold jobs up$/m)
    expect(top.stdout).toMatch(/^jammed +HELD OPEN/m)
    expect(after.stdout).not.toContain('jammed')
  })
})
