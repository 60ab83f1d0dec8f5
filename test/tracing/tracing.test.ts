import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterEach, describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { connect } from '../../src/connect.js'
import { DropJob } from '../../src/core/definition.js'
import type { Store } from '../../src/core/store.js'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { openTelemetry } from '../../src/tracing/index.js'
import { testPorts } from '../client/support.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'

const parent = defineJob<{ secret?: string }>('parent', { queue: 'tree' })
const child = defineJob('child', { queue: 'tree' })

interface Stage {
  readonly holdfast: Holdfast
  readonly store: Store
  readonly clock: ManualClock
  spans(name?: string): readonly ReadableSpan[]
}

function recorder() {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  const spans = (name?: string) =>
    exporter.getFinishedSpans().filter((span) => name === undefined || span.name === name)
  return { tracer: provider.getTracer('test'), spans }
}

async function openTraced(): Promise<Stage> {
  const { tracer, spans } = recorder()
  const clock = manualClock()
  const store = memoryStore({ clock })
  const options = { ports: testPorts(clock), upkeep: false, tracer: openTelemetry({ tracer }) }
  return { holdfast: await openHoldfast(store, options), store, clock, spans }
}

afterEach(() => context.disable())

const traceOf = (span: ReadableSpan | undefined) => span?.spanContext().traceId
const parentOf = (span: ReadableSpan | undefined) => span?.parentSpanContext?.spanId
const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId

describe('one trace', () => {
  // With a context manager the active span is the parent; without one the worker knows whose code runs.
  for (const isManaged of [true, false]) {
    const how = isManaged ? 'with a context manager' : 'without one'

    test(`runs from the enqueue through the wait to the run, and on to the jobs it enqueues, ${how}`, async () => {
      if (isManaged) context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
      const { holdfast, clock, spans } = await openTraced()
      const handler = parent.handle(async () => {
        await Promise.resolve()
        await holdfast.enqueue(child, null)
        await holdfast.enqueueMany(child, [null, null])
      })
      const { id } = await holdfast.enqueue(parent, {})
      await clock.advance(1_500)

      await holdfast.worker({ handlers: [handler] }).tick()
      await holdfast.worker({ handlers: [child.handle(() => {})] }).tick()

      const [enqueued] = spans('enqueue parent')
      const [waited] = spans('wait parent')
      const [ran] = spans('run parent')
      expect(new Set(spans().map(traceOf)).size).toBe(1)
      expect([parentOf(enqueued), parentOf(waited), parentOf(ran)]).toEqual([undefined, idOf(enqueued), idOf(enqueued)])
      expect(spans('enqueue child').map(parentOf)).toEqual([idOf(ran), idOf(ran)])
      expect(spans('run child')).toHaveLength(3)
      expect(new Set(spans('run child').map(parentOf))).toEqual(new Set(spans('enqueue child').map(idOf)))
      expect(waited?.duration).toEqual([1, 500_000_000])
      expect([enqueued?.kind, ran?.kind]).toEqual([SpanKind.PRODUCER, SpanKind.CONSUMER])
      expect(ran?.attributes).toMatchObject({
        'messaging.system': 'holdfast',
        'messaging.destination.name': 'tree',
        'messaging.message.id': id,
        'holdfast.type': 'parent',
        'holdfast.attempt': 1,
        'holdfast.outcome': 'succeeded',
      })
    })
  }

  test('belongs to the request that enqueued', async () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    const { holdfast, spans } = await openTraced()
    const request = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7', traceFlags: 1 }

    await context.with(trace.setSpanContext(context.active(), request), () => holdfast.enqueue(parent, {}))

    expect(traceOf(spans('enqueue parent')[0])).toBe(request.traceId)
    expect(parentOf(spans('enqueue parent')[0])).toBe(request.spanId)
  })

  test('holds every attempt, and says how each ended', async () => {
    const { holdfast, store, clock, spans } = await openTraced()
    const handler = parent.handle((_, { attempt }) => {
      if (attempt === 1) throw new TypeError('not yet')
      throw new DropJob('never')
    })
    const worker = holdfast.worker({ handlers: [handler] })
    await holdfast.enqueue(parent, {}, { retry: { backoff: 'fixed', base: 1, jitter: false } })
    await worker.tick()
    await clock.advance(1_000)
    await store.promote(10)
    await worker.tick()

    const runs = spans('run parent')
    expect(new Set(spans().map(traceOf)).size).toBe(1)
    expect(spans('wait parent')).toHaveLength(1)
    expect(runs.map(({ attributes }) => [attributes['holdfast.outcome'], attributes['error.type']])).toEqual([
      ['failed', 'TypeError'],
      ['dropped', 'DropJob'],
    ])
    expect(runs.map(({ status }) => status.code)).toEqual([SpanStatusCode.ERROR, SpanStatusCode.ERROR])
  })

  test('begins at the run for a job nobody traced, and for one whose trace cannot be read', async () => {
    const { holdfast, store, spans } = await openTraced()
    const id = (digit: number) => `01890000-0000-7000-8000-00000000000${digit}`
    const job = {
      ...{ queue: 'tree', type: 'child', payload: 'null', version: 1, priority: 0, when: null, limits: {} },
      ...{ idempotencyKey: null, after: [], onParentDead: 'cancel' as const, tags: [] },
    }
    const none = '00000000000000000000000000000000'
    const traces = [
      null,
      '',
      'nonsense',
      `00-${none}-00f067aa0ba902b7-01`,
      'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    ]
    await store.enqueue(traces.map((text, at) => ({ ...job, id: id(at), trace: text })))

    await holdfast.worker({ handlers: [child.handle(() => {})] }).tick()

    expect(spans('run child').map(parentOf)).toEqual(traces.map(() => undefined))
    expect(spans('wait child')).toEqual([])
  })

  test('goes through PostgreSQL', async () => {
    const { tracer, spans } = recorder()
    const schema = 'tracing_test'
    const holdfast = await connect(testServerUrl(), { schema, tracer: openTelemetry({ tracer }) })
    const { id } = await holdfast.enqueue(parent, {}, { delay: 1 })
    await holdfast.worker({ handlers: [parent.handle(() => {})] }).start()
    await holdfast.wait(id)
    await holdfast.close()
    await dropSchema(testServerUrl(), schema)

    expect(spans().map(({ name }) => name)).toEqual(['enqueue parent', 'wait parent', 'run parent'])
    expect(parentOf(spans('run parent')[0])).toBe(idOf(spans('enqueue parent')[0]))
  })
})

describe('a span', () => {
  test('holds nothing of payloads, results, keys, tags and messages of errors', async () => {
    const { holdfast, spans } = await openTraced()
    const canary = 'canary-7f3a'
    const handler = parent.handle(({ secret }) => {
      if (secret === undefined) return canary
      throw new Error(`cannot use ${secret}`)
    })
    await holdfast.enqueue(parent, { secret: canary }, { tags: [canary], idempotencyKey: canary })
    await holdfast.enqueue(parent, {})
    await holdfast.enqueue(parent, { secret: canary }, { priority: canary as never }).catch(() => {})

    await holdfast.worker({ handlers: [handler] }).tick()

    const shown = spans().map(({ name, attributes, status, events, links }) => ({
      name,
      attributes,
      status,
      events,
      links,
    }))
    expect(shown).toHaveLength(7)
    expect(JSON.stringify(shown)).not.toContain(canary)
  })

  test('of an enqueue says when the key was taken, and what was refused', async () => {
    const { holdfast, spans } = await openTraced()
    await holdfast.enqueue(parent, {}, { idempotencyKey: 'k' })
    await holdfast.enqueue(parent, {}, { idempotencyKey: 'k' })
    const refused = await holdfast.enqueue('no spaces', {}).catch((error: unknown) => error)

    expect(refused).toMatchObject({ code: 'invalid_name' })
    expect(spans('enqueue parent').map(({ attributes }) => attributes['holdfast.created'])).toEqual([true, false])
    expect(spans('enqueue no spaces')[0]?.attributes).toMatchObject({ 'error.type': 'invalid_name' })
  })
})

describe('without a tracer', () => {
  test('a job carries no trace', async () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const holdfast = await openHoldfast(store, { ports: testPorts(clock), upkeep: false })
    await holdfast.enqueue(parent, {})
    const queues = [{ queue: 'tree', limit: 1 }]

    const { jobs } = await store.claim({ queues, types: null, worker: 'w', leaseMs: 1_000 })

    expect(jobs[0]?.trace).toBeNull()
  })

  test('what is no tracer is refused', async () => {
    const store = memoryStore({ clock: manualClock() })

    await expect(openHoldfast(store, { tracer: {} as never })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})
