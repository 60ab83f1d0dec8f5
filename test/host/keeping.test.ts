// What a handler in a child does with its worker's connection: enqueue, steps, effects, waits, children, output. All of it is done by the worker, under
// the lease of the job.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WorkerProcess } from '../support/processes.js'
import { HostStage, nextEvent, until } from './stage.js'

describe.each([
  ['a process', 'careful'],
  ['a thread', 'careful_thread'],
])('a handler in %s', (_, type) => {
  let stage: HostStage
  let host: WorkerProcess
  beforeAll(async () => {
    stage = await HostStage.open()
    host = await stage.start({ types: [type, 'work'] })
  })
  afterAll(() => stage.close())

  const enqueue = (what: string, more: object = {}, options: object = {}) =>
    stage.holdfast.enqueue(type, { what, ...more }, options)
  const run = async (what: string, more: object = {}, options: object = {}) =>
    (await enqueue(what, more, options)).wait({ timeout: '20s' })
  const waiting = (id: string) =>
    nextEvent(host, 'job.settled', (event) => event.id === id && event.state === 'scheduled')

  test('that dies after a step and an effect repeats neither', async () => {
    const handle = await enqueue('steps')
    const { id } = handle

    expect(await handle.wait()).toEqual({ first: { n: 1 }, second: `${id}:second`, third: 3 })

    const ran = stage.lines('ended').filter((line) => line.id === id)
    expect(ran.map(({ attempt, value }) => [attempt, value])).toEqual([
      [1, { n: 1 }],
      [1, `${id}:second`],
      [2, 3],
    ])
    expect((await stage.holdfast.get(id))!.steps!.map(({ name, attempt }) => [name, attempt])).toEqual([
      ['first', 1],
      ['second', 1],
      ['third', 2],
    ])
  })

  test('waits for a signal without a slot, and goes on with its value', async () => {
    const handle = await enqueue('wait')
    await waiting(handle.id)
    expect(await stage.holdfast.get(handle.id)).toMatchObject({ state: 'scheduled', attempt: 0 })

    expect(await stage.holdfast.signal(handle.id, 'approved', { by: 'ada' })).toMatchObject({ woken: true })

    expect(await handle.wait()).toEqual({ value: { by: 'ada' }, timedOut: false })
  })

  test('leaves its slot also when it caught what told it to', async () => {
    const handle = await enqueue('swallow')
    await waiting(handle.id)

    await stage.holdfast.signal(handle.id, 'approved', 'yes')

    expect(await handle.wait()).toBe('yes')
  })

  test('goes on when the time of its wait is over', async () => {
    expect(await run('timeout')).toBe(true)
  })

  test('has its output kept before its job ends', async () => {
    const handle = await enqueue('output')
    await handle.wait()

    let text = ''
    for await (const piece of stage.holdfast.read(handle.id)) text += piece.text

    expect(text).toBe('one two three')
  })

  test('waits for children that it enqueued once, and gets how each ended', async () => {
    const result = await run('children', { onFailure: 'collect' })

    expect(result).toEqual({ again: true, created: false, ends: { good: 'succeeded', bad: 'dead' } })
  })

  test('whose child failed is dead with child_failed', async () => {
    const { id } = await enqueue('children')

    await nextEvent(host, 'job.settled', (event) => event.id === id && event.state === 'dead')

    expect((await stage.holdfast.get(id))!.error).toMatchObject({ code: 'child_failed' })
  })

  test('enqueues by definition and by type, with what its definition says, and knows its own', async () => {
    const handle = await enqueue('enqueue')
    const made = (await handle.wait()) as { id: string; job: object; many: string[] }

    expect(made).toMatchObject({ created: true, state: 'scheduled' })
    expect(made.job).toEqual({
      priority: 5,
      tags: ['green'],
      enqueuedBy: handle.id,
      group: 'g7',
      payload: { rows: 7 },
    })
    expect(await Promise.all(made.many.map(async (id) => (await stage.holdfast.get(id))!.type))).toEqual([
      'report',
      'other',
    ])
  })

  test('gets the errors of its calls with their codes, and its child lives', async () => {
    expect(await run('refused')).toEqual([
      'invalid_payload',
      'invalid_payload',
      'invalid_option',
      'invalid_option',
      'invalid_option',
      'payload_too_large',
      'invalid_option',
      'invalid_option',
      'job_not_found',
      'aborted',
      'unsupported',
    ])
    expect(host.events('child.ended').filter(({ why }) => why !== 'exit')).toEqual([])
  })

  test('enqueues in its own transaction: the job exists exactly if that commits', async () => {
    const [rolledBack, committed] = (await run('tx')) as [string, string]

    expect(await stage.holdfast.get(rolledBack)).toBeNull()
    expect(await stage.holdfast.get(committed)).toMatchObject({ type: 'other', payload: { end: 'COMMIT' } })
  })

  test('waits for the result of a job that it enqueued', async () => {
    expect(await run('handle')).toEqual(['attempt', 'pid', 'threadId'])
  })

  test('gets the results of the jobs before it', async () => {
    const [one, two] = await Promise.all(['timeout', 'progress'].map((what) => enqueue(what)))

    expect(await run('parents', {}, { after: [one!.id, two!.id] })).toEqual([true, { page: 1 }])
  })

  test('gets the progress of the attempt before', async () => {
    expect(await run('progress')).toEqual({ page: 1 })
  })

  test('keeps nothing after its attempt', async () => {
    const { id } = await enqueue('late')

    expect(await stage.line((line) => line.what === 'aborted' && line.id === id)).toMatchObject({ code: 'wrong_state' })
    await until(() => host.events('job.settled').some((event) => event.id === id))
    expect((await stage.holdfast.get(id))!.steps).toBeUndefined()
  })
})
