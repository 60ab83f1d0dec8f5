import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type GenerateOptions, generate, readShares } from '../../lab/gen/generate.js'
import { generatedHandlers } from '../../lab/gen/handlers.js'
import { jobAt, KINDS, MIX_DEFAULT } from '../../lab/gen/mix.js'
import { produce } from '../../lab/gen/produce.js'
import { connect } from '../../src/connect.js'

const OPTIONS: GenerateOptions = {
  ...{ seed: 3, jobs: 200, rate: null, callers: 8, queue: 'gen' },
  ...{ shares: null, longMs: null, record: null },
}

describe('the generated load', () => {
  test('is the same for the same seed, and another for another', () => {
    const jobs = (seed: number) => Array.from({ length: 500 }, (_, seq) => jobAt(seed, seq))

    expect(jobs(5)).toEqual(jobs(5))
    expect(jobs(5)).not.toEqual(jobs(6))
  })

  test('has the shares and durations of its options', () => {
    const jobs = Array.from({ length: 20_000 }, (_, seq) => jobAt(1, seq))

    for (const kind of KINDS) {
      const own = jobs.filter((job) => job.kind === kind)
      const [fromMs, toMs] = MIX_DEFAULT.durationsMs[kind]
      expect(Math.abs(own.length / jobs.length - MIX_DEFAULT.shares[kind]), kind).toBeLessThan(0.02)
      expect(
        own.every(({ ms }) => ms >= fromMs && ms <= toMs),
        kind,
      ).toBe(true)
    }
    expect(new Set(jobs.map(({ key }) => key)).size).toBe(jobs.length)
  })

  test('takes shares as text and reports mistakes in them', () => {
    expect(readShares('fast=3,poison=1')).toEqual({ fast: 3, slow: 0, flapping: 0, poison: 1, long: 0 })
    expect(() => readShares('quick=1')).toThrow(/quick=1/)
    expect(() => readShares('fast=0')).toThrow(/above 0/)
  })
})

describe('the generator', () => {
  test('enqueues every job once and records each call before its answer', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-gen-'))
    const holdfast = await connect('memory:')
    const record = join(folder, 'record.jsonl')

    const summary = await generate(holdfast, { ...OPTIONS, record })

    const { ready } = await holdfast.stats('gen')
    const lines = (await readFile(record, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const isAskedFirst = lines.every(({ ev, key }, index) => {
      return ev !== 'enqueue.ok' || lines.findIndex((line) => line.ev === 'enqueue.invoke' && line.key === key) < index
    })
    expect(summary).toMatchObject({ asked: 200, accepted: 200, refused: 0, unknown: 0 })
    expect(ready).toBe(200)
    expect(lines.filter(({ ev }) => ev === 'enqueue.ok').length).toBe(200)
    expect(isAskedFirst).toBe(true)
    await holdfast.close()
    await rm(folder, { recursive: true })
  })

  test('counts a call that started late from the time it was due', async () => {
    let open: () => void = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const target = { enqueue: async () => gate.then(() => ({ id: 'a', created: true })) }
    const payload = jobAt(1, 1)
    const callAt = (seq: number) => (seq < 3 ? { job: generatedJob, payload, options: {} } : null)
    setTimeout(() => open(), 200)

    const { latenciesMs } = await produce(target, { callAt, perSecond: 1_000, callers: 1, recorder: null })

    // One caller: the second and third wait for the first, and that wait counts for them.
    expect(latenciesMs.every((ms) => ms > 150)).toBe(true)
  })

  test('has handlers that fail as often as the payload says and then succeed', async () => {
    const holdfast = await connect('memory:')
    const worker = holdfast.worker({ handlers: generatedHandlers() })
    await worker.start()
    const flapping = { ...jobAt(1, 1), kind: 'flapping', ms: 1, failures: 2, effect: 'none' } as const
    const definition = generatedHandlers()[KINDS.indexOf('flapping')]!.definition

    const { id } = await holdfast.enqueue(definition.type, flapping, {
      queue: 'gen',
      retry: { backoff: 'fixed', base: 1 },
    })
    await holdfast.wait(id, { timeout: '60s' })

    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 3 })
    await holdfast.close()
  })
})

const generatedJob = generatedHandlers()[0]!.definition as never
