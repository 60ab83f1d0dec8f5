// Flows: children that a handler adds and waits for, what becomes of it when one fails, and that no job waits without a reason.

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { DropJob, defineJob, type Handler, type Holdfast, type JobContext, RetryJob } from '../../src/index.js'
import { failure, onStores } from './stores.js'

const WAIT = { timeout: '20s' } as const

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  let names = 0
  const newJob = <Payload = null>(name: string) => defineJob<Payload, unknown>(`${name}_${++names}`, { maxAttempts: 3 })

  test('a handler adds children, leaves its slot, and gets their results by name', async () => {
    const { holdfast } = queue()
    const [video, resize] = [newJob('video'), newJob<{ size: number }>('resize')]
    const handlers = [
      video.handle(async (_payload, ctx) => {
        for (const size of [1, 2, 3]) await ctx.enqueue(resize, { size }, { child: `size ${size}` })
        const ends = await ctx.waitForChildren()
        return Object.entries(ends).map(([name, { state, result }]) => [name, state, result])
      }),
      resize.handle(async ({ size }, ctx) => {
        // It ends only when its parent has left its slot.
        await untilBlocked(ctx.holdfast, ctx.enqueuedBy!)
        return size * 10
      }),
    ]
    // With one slot nothing of this could end if the parent kept it.
    const worker = holdfast.worker({ handlers, concurrency: 1 })
    await worker.start()
    try {
      const result = await (await holdfast.enqueue(video, null)).wait(WAIT)

      expect(result).toEqual([
        ['size 1', 'succeeded', 10],
        ['size 2', 'succeeded', 20],
        ['size 3', 'succeeded', 30],
      ])
    } finally {
      await worker.stop()
    }
  })

  test('a retry adds no child twice, and its handle waits for the one that is there', async () => {
    const { holdfast, working } = queue()
    const [parent, child] = [newJob('parent'), newJob('child')]
    const ids: string[] = []
    let runs = 0
    const handlers = [
      parent.handle(async (_payload, ctx) => {
        const handle = await ctx.enqueue(child, null, { child: 'one' })
        ids.push(handle.id)
        if (ctx.attempt === 1) throw new RetryJob('once more', { delay: 0 })
        await ctx.waitForChildren()
        return handle.wait(WAIT)
      }),
      child.handle(() => ++runs),
    ]

    const result = await working(handlers, async () => (await holdfast.enqueue(parent, null)).wait(WAIT))

    expect(result).toBe(1)
    expect(new Set(ids).size).toBe(1)
  })

  test('a child that fails fails its parent when all have ended, without another attempt', async () => {
    const { holdfast, working } = queue()
    const [parent, child] = [newJob('parent'), newJob<{ fail: boolean }>('child')]
    let attempts = 0
    const handlers = [
      parent.handle(async (_payload, ctx) => {
        attempts++
        await ctx.enqueue(child, { fail: true }, { child: 'bad', maxAttempts: 1 })
        await ctx.enqueue(child, { fail: false }, { child: 'good' })
        await ctx.waitForChildren()
      }),
      child.handle(async ({ fail }, ctx) => {
        await untilBlocked(ctx.holdfast, ctx.enqueuedBy!)
        if (fail) throw new Error('no such file')
        return 'fine'
      }),
    ]

    const view = await working(handlers, async () => {
      const handle = await holdfast.enqueue(parent, null)
      await failure(handle.wait(WAIT))
      return (await holdfast.get(handle.id))!
    })

    expect(view).toMatchObject({ state: 'dead', reason: 'dropped', error: { code: 'child_failed' } })
    expect(view.error!.message).toMatch(/^child "bad" of job .* is dead: Error: no such file$/)
    expect(attempts).toBe(2)
  })

  test('requeueing the child and then its parent completes the flow', async () => {
    const { holdfast, working } = queue()
    const [parent, child] = [newJob('parent'), newJob('child')]
    let broken = true
    const handlers = [
      parent.handle(async (_payload, ctx) => {
        await ctx.enqueue(child, null, { child: 'one' })
        return (await ctx.waitForChildren()).one!.result
      }),
      child.handle(() => {
        if (broken) throw new DropJob('not yet')
        return 'done'
      }),
    ]

    const result = await working(handlers, async () => {
      const handle = await holdfast.enqueue(parent, null)
      await failure(handle.wait(WAIT))
      broken = false
      const { jobs } = await holdfast.list({ filter: { types: [child.type] } })
      await holdfast.requeue(jobs[0]!.id)
      await holdfast.requeue(handle.id)
      return handle.wait(WAIT)
    })

    expect(result).toBe('done')
  })

  test("with onFailure: 'cancel' the first failure cancels the others", async () => {
    const { holdfast, working } = queue()
    const [parent, child, never] = [newJob('parent'), newJob('child'), newJob('never')]
    const handlers = [
      parent.handle(async (_payload, ctx) => {
        await ctx.enqueue(never, null, { child: 'late', delay: '1d' })
        await ctx.enqueue(child, null, { child: 'bad' })
        return (
          ((await failure(ctx.waitForChildren({ onFailure: 'cancel' }))) as { code?: string; name: string }).code ??
          'parked'
        )
      }),
      child.handle(() => {
        throw new DropJob('no')
      }),
    ]

    const [result, late] = await working(handlers, async () => {
      const handle = await holdfast.enqueue(parent, null)
      const code = await handle.wait(WAIT)
      return [code, (await holdfast.list({ filter: { types: [never.type] } })).jobs[0]!.state]
    })

    expect(result).toBe('child_failed')
    expect(late).toBe('cancelled')
  })

  test("with onFailure: 'collect' the handler sees how each ended", async () => {
    const { holdfast, working } = queue()
    const [parent, child] = [newJob('parent'), newJob<{ fail: boolean }>('child')]
    const handlers = [
      parent.handle(async (_payload, ctx) => {
        await Promise.all(
          [true, false].map((fail) => ctx.enqueue(child, { fail }, { child: fail ? 'bad' : 'good', maxAttempts: 1 })),
        )
        const { bad, good } = await ctx.waitForChildren({ onFailure: 'collect' })
        return [bad!.state, bad!.error!.message, good!.state, good!.result]
      }),
      child.handle(({ fail }) => {
        if (fail) throw new Error('no')
        return 7
      }),
    ]

    const result = await working(handlers, async () => (await holdfast.enqueue(parent, null)).wait(WAIT))

    expect(result).toEqual(['dead', 'no', 'succeeded', 7])
  })

  test('children may have children, signals and steps', async () => {
    const { holdfast, working } = queue()
    const [root, branch, leaf] = [newJob('root'), newJob<{ n: number }>('branch'), newJob<{ n: number }>('leaf')]
    const sum = (ends: Readonly<Record<string, { result: unknown }>>) =>
      Object.values(ends).reduce((total, { result }) => total + (result as number), 0)
    const handlers = [
      root.handle(async (_payload, ctx) => {
        for (const n of [1, 2]) await ctx.enqueue(branch, { n }, { child: `${n}` })
        return sum(await ctx.waitForChildren())
      }),
      branch.handle(async ({ n }, ctx) => {
        for (const m of [1, 2, 3]) await ctx.enqueue(leaf, { n: n * 10 + m }, { child: `${m}` })
        return sum(await ctx.waitForChildren())
      }),
      leaf.handle(async ({ n }, ctx) => {
        if (n === 11) await ctx.waitFor('go')
        return ctx.step('double', () => 2 * n)
      }),
    ]

    const result = await working(handlers, async () => {
      const handle = await holdfast.enqueue(root, null)
      let waits: string | undefined
      while (waits === undefined) {
        const { jobs } = await holdfast.list({ filter: { types: [leaf.type], states: ['scheduled'] } })
        waits = jobs[0]?.id
        await sleep(5)
      }
      let explained = await holdfast.explain(handle.id)
      while (explained.state === 'running') {
        await sleep(5)
        explained = await holdfast.explain(handle.id)
      }
      expect(explained.reasons[0]!.code).toBe('waits_for_children')
      expect(explained.summary).toContain('its handler waits for its children')
      await holdfast.signal(waits, 'go')
      return handle.wait(WAIT)
    })

    expect(result).toBe(2 * (11 + 12 + 13 + 21 + 22 + 23))
  })

  test('children with bad names, without a parent or in a transaction are refused, and a finished flow takes none', async () => {
    const { holdfast, working } = queue()
    const [parent, child] = [newJob('parent'), newJob('child')]
    const codeOf = async (call: Promise<unknown>) => ((await failure(call)) as { code: string }).code
    let late: JobContext['enqueue'] | null = null
    const tx = { query: async () => ({ rows: [] }) }
    const handler = parent.handle(async (_payload, ctx) => {
      late = ctx.enqueue
      return [
        await codeOf(ctx.enqueue(child, null, { child: '' })),
        await codeOf(ctx.enqueue(child, null, { child: 7 as never })),
        await codeOf(ctx.enqueue(child, null, { child: 'a', tx })),
        await codeOf(ctx.waitForChildren({ onFailure: 'shrug' as never })),
        await codeOf(ctx.waitForChildren({ onFailre: 'throw' } as never)),
        Object.keys(await ctx.waitForChildren()).length,
      ]
    })

    const result = await working([handler], async () => (await holdfast.enqueue(parent, null)).wait(WAIT))

    expect(result).toEqual([...Array(5).fill('invalid_option'), 0])
    expect(await codeOf(holdfast.enqueue(child, null, { child: 'a' }))).toBe('invalid_option')
    expect(await codeOf(late!(child, null, { child: 'late' }))).toBe('wrong_state')
  })

  test('no flow sticks: every job that has not finished has a reason, and what the reason names completes it', async () => {
    const { holdfast, working } = queue()
    const types = { node: newJob<{ depth: number; seed: number }>('node') }
    // A random tree of flows with steps, waits, children, failures and retries; the same for each seed.
    const chance = (seed: number, salt: number) => {
      let x = (seed * 2_654_435_761 + salt * 40_503) >>> 0
      x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) >>> 0
      return ((x ^ (x >>> 13)) >>> 0) / 2 ** 32
    }
    const node: Handler = types.node.handle(async ({ depth, seed }, ctx) => {
      await ctx.step('first', () => seed)
      if (chance(seed, 1) < 0.3) await ctx.waitFor('go', { timeout: chance(seed, 2) < 0.5 ? '1h' : 50 })
      if (depth > 0) {
        for (let n = 0; n < 3; n++) {
          const next = { depth: depth - 1, seed: seed * 7 + n + 1 }
          await ctx.enqueue(types.node, next, {
            child: `${n}`,
            maxAttempts: 2,
            retry: { backoff: 'fixed', base: '10ms' },
          })
        }
        await ctx.waitForChildren({
          onFailure: chance(seed, 3) < 0.5 ? 'collect' : chance(seed, 4) < 0.5 ? 'throw' : 'cancel',
        })
      }
      if (chance(seed, 5) < 0.15) throw new Error('by chance')
      return seed
    })
    const WAITING = new Set([
      'waits_for_signal',
      'waits_for_children',
      'waits_for_parent',
      'retry_later',
      'due_later',
      'due_now',
    ])
    const MOVING = new Set(['running', 'next_in_line', 'behind', 'workers_full', 'finished', 'dead', 'cancel_asked'])

    await working([node], async () => {
      const roots = await holdfast.enqueueMany(
        types.node,
        [1, 2, 3, 4].map((seed) => ({ depth: 2, seed })),
      )
      const after = await holdfast.enqueue(
        types.node,
        { depth: 0, seed: 99 },
        { after: roots.map(({ id }) => id), onParentDead: 'run' },
      )
      for (let round = 0; ; round++) {
        const { jobs } = await holdfast.list({ filter: { types: [types.node.type] }, limit: 200 })
        const open = jobs.filter(({ state }) => !['succeeded', 'dead', 'cancelled'].includes(state))
        for (const { id } of open) {
          const { reasons } = await holdfast.explain(id)
          expect(reasons.length, `job ${id} waits without a reason`).toBeGreaterThan(0)
          expect([...WAITING, ...MOVING], reasons[0]!.text).toContain(reasons[0]!.code)
          if (reasons[0]!.code === 'waits_for_signal') await holdfast.signal(id, 'go').catch(() => {})
        }
        if (open.length === 0) break
        expect(round, `stuck: ${open.map(({ id, state }) => `${id} ${state}`).join(', ')}`).toBeLessThan(400)
        await sleep(25)
      }
      expect((await holdfast.get(after.id))!.state).toMatch(/succeeded|dead/)
    })
  })
})

/** Until a parent has left its slot. */
async function untilBlocked(holdfast: Holdfast, id: string): Promise<void> {
  while ((await holdfast.get(id))!.state !== 'blocked') await sleep(5)
}
