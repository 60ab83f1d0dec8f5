// A process that enqueues: at a fixed rate whether the store keeps up or not, or all calls concurrently.

import { connect, defineJob, isHoldfastError } from '../../../src/index.js'
import type { Message } from '../children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../parent.js'
import { type Spread, spreadOf } from '../statistics.js'

export interface ProducerAssignment {
  readonly postgresUrl: string
}

export interface ProduceRequest extends Message {
  readonly kind: 'produce'
  readonly jobsPerSecond: number
  /** How many groups the jobs belong to; null for none. */
  readonly groups: number | null
}

/** The answer to `sample`: counts since the start, times since the last sample. */
export interface ProducerSample extends Message {
  readonly sent: number
  readonly accepted: number
  readonly refused: number
  readonly enqueues: Spread
}

export interface BurstRequest extends Message {
  readonly kind: 'burst'
  readonly calls: number
  readonly payloadBytes: number
}

export interface Burst extends Message {
  readonly kind: 'burst'
  readonly accepted: number
  readonly seconds: number
  /** How many calls were refused, by the code of the error. */
  readonly refused: Readonly<Record<string, number>>
  /** Whether every refusal was retryable. */
  readonly isRetryable: boolean
  /** The first refusal's message. */
  readonly message: string | null
}

// Due calls are made at this interval; at 8,000 a second there are sixteen of them.
const TICK_MS = 2

type Enqueue = (payload: object, group?: string) => Promise<unknown>

async function main({ postgresUrl }: ProducerAssignment): Promise<void> {
  const client = await connect(postgresUrl)
  const noop = defineJob<object>('noop')
  const enqueue: Enqueue = (payload, group) => client.enqueue(noop, payload, group === undefined ? {} : { group })
  const stop = receiveFromParent('stop')
  void receiveFromParent<BurstRequest>('burst').then(async (request) =>
    sendToParent<Burst>(await burst(enqueue, request)),
  )
  const producing = receiveFromParent<ProduceRequest>('produce').then((request) => produce(enqueue, request))
  sendToParent({ kind: 'ready' })
  await stop
  const end = await Promise.race([producing, Promise.resolve(null)])
  end?.()
  await client.close()
  sendToParent({ kind: 'stopped' })
  leaveParent()
}

/** Enqueues on time and returns the function that ends it. A slow call never delays the next one. */
function produce(enqueue: Enqueue, { jobsPerSecond, groups }: ProduceRequest): () => void {
  let [sent, accepted, refused] = [0, 0, 0]
  let took: number[] = []
  const beganMs = performance.now()
  const send = async (n: number) => {
    const sentMs = performance.now()
    try {
      await enqueue({ n }, groups === null ? undefined : `tenant-${n % groups}`)
      accepted++
      took.push(performance.now() - sentMs)
    } catch {
      refused++
    }
  }
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - beganMs) * jobsPerSecond) / 1_000)
    while (sent < due) void send(sent++)
  }, TICK_MS)
  answerParent('sample', () => {
    const answer = { sent, accepted, refused, enqueues: spreadOf(took) }
    took = []
    return answer
  })
  return () => clearInterval(timer)
}

/** Makes all calls without waiting for answers. */
async function burst(enqueue: Enqueue, { calls, payloadBytes }: BurstRequest): Promise<Burst> {
  const payload = { text: 'x'.repeat(Math.max(0, payloadBytes - 11)) }
  const beganMs = performance.now()
  const results = await Promise.allSettled(Array.from({ length: calls }, () => enqueue(payload)))
  const seconds = (performance.now() - beganMs) / 1_000
  const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
  const refused: Record<string, number> = {}
  for (const error of errors) {
    const code = isHoldfastError(error) ? error.code : 'another error'
    refused[code] = (refused[code] ?? 0) + 1
  }
  return {
    kind: 'burst',
    accepted: calls - errors.length,
    seconds,
    refused,
    isRetryable: errors.every((error) => isHoldfastError(error) && error.retryable),
    message: errors[0] instanceof Error ? errors[0].message : null,
  }
}

await main(readAssignment<ProducerAssignment>())
