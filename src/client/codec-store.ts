// Sealed payloads: a store in front of another that seals what is written and opens what is claimed. What people look at stays sealed.
// A sealed job has a version far above any definition's. So a worker without a codec gives it back, as it does with a job for newer code,
// and plain queues pay nothing for it.

import { HoldfastError, invalidOption } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { ClaimedJob, Enqueued, NewJob, SettledJob } from '../core/job.js'
import { encodeError } from '../core/json.js'
import { SEALED_VERSION } from '../core/payload.js'
import type { Clock } from '../core/ports.js'
import type { Store } from '../core/store.js'

/** One way of sealing bytes, such as compressing or encrypting them. */
export interface PayloadCodec {
  /** What it is called in a sealed payload, without a colon. */
  readonly name: string
  /** The sealed bytes, and the name of the key they were sealed with, if there are keys; or null to leave them as they are. */
  seal(bytes: Uint8Array): SealedBytes | null | Promise<SealedBytes | null>
  /** The bytes that were sealed. Raises when they were changed. `hasKey` is asked before. */
  open(bytes: Uint8Array, key: string | null): Uint8Array | Promise<Uint8Array>
  /** Whether it can open what was sealed with this key. */
  hasKey(key: string | null): boolean
}

export interface SealedBytes {
  readonly bytes: Uint8Array
  readonly key: string | null
}

/** How long a job waits that nobody here can open. */
const NO_KEY_DELAY_MS = 10_000
const REPORT_AGAIN_MS = 60_000
const PREFIX = '{"$sealed":'
const CODECS_MAX = 4

/** Raises `invalid_option` unless these are codecs. */
export function checkCodecs(codec: unknown): readonly PayloadCodec[] {
  const codecs = Array.isArray(codec) ? codec : [codec]
  const isCodec = (one: unknown) => {
    const { name, seal, open, hasKey } = (one ?? {}) as Record<string, unknown>
    const areFunctions = [seal, open, hasKey].every((each) => typeof each === 'function')
    return areFunctions && typeof name === 'string' && /^[a-z0-9][a-z0-9-]{0,39}$/.test(name)
  }
  const names = new Set(codecs.map((one) => (one as PayloadCodec | null)?.name))
  if (codecs.length > 0 && codecs.length <= CODECS_MAX && codecs.every(isCodec) && names.size === codecs.length)
    return codecs
  throw invalidOption(
    `codec must be one or up to ${CODECS_MAX} codecs of different names, such as aes256gcm({ keys, use }) or [gzip(), aes256gcm(…)]`,
    codec,
  )
}

function isSealed({ payload, version }: Pick<NewJob, 'payload' | 'version'>): boolean {
  return version >= SEALED_VERSION || payload.startsWith(PREFIX)
}

/** Nobody here can open it. */
class NoKey extends Error {}

interface CodecDeps {
  readonly emit: Emit
  readonly clock: Clock
}

/** The store as clients and workers with these codecs see it. */
export function withCodecs(store: Store, codecs: readonly PayloadCodec[], { emit, clock }: CodecDeps): Store {
  const reported = new Map<string, number>()
  const giveUp = (job: ClaimedJob, error: unknown): SettledJob => {
    const { id, fence, queue, attempt, crashes, idempotencyKey, flow } = job
    const facts = {
      id,
      fence,
      queue,
      result: null,
      ranMs: null,
      idempotencyKey,
      ...(flow === undefined ? {} : { flow }),
    }
    if (!(error instanceof NoKey)) {
      return { ...facts, settlement: { state: 'dead', attempt, crashes, reason: 'invalid' }, error: encodeError(error) }
    }
    const nowMs = clock.monotonic()
    if (nowMs - (reported.get(error.message) ?? Number.NEGATIVE_INFINITY) > REPORT_AGAIN_MS) {
      if (reported.size > 100) reported.clear()
      reported.set(error.message, nowMs)
      const text = `job ${id} of type "${job.type}" ${error.message}: it waits for a worker that has it, and is looked at again every ${NO_KEY_DELAY_MS / 1_000} s`
      emit({ name: 'store.failed', during: 'open payload', error: new HoldfastError('unsupported', text) })
    }
    const settlement = { state: 'scheduled', attempt: attempt - 1, crashes, delayMs: NO_KEY_DELAY_MS } as const
    return { ...facts, settlement, error: null }
  }
  const openAll = async (jobs: readonly ClaimedJob[]): Promise<readonly ClaimedJob[]> => {
    if (!jobs.some(isSealed)) return jobs
    const opened: ClaimedJob[] = []
    const closed: SettledJob[] = []
    for (const job of jobs) {
      try {
        opened.push(await openJob(job, codecs))
      } catch (error) {
        closed.push(giveUp(job, error))
      }
    }
    if (closed.length > 0) await store.settle(closed)
    return opened
  }
  return {
    ...store,
    async enqueue(jobs, request) {
      const sealed = await Promise.all(jobs.map((job) => sealJob(job, codecs)))
      const answers = await store.enqueue(sealed, request)
      if (!answers.some((answer) => 'claimed' in answer && answer.claimed !== undefined)) return answers
      return Promise.all(answers.map((answer) => openAnswer(answer, codecs)))
    },
    async claim(request) {
      const claim = await store.claim(request)
      return { ...claim, jobs: await openAll(claim.jobs) }
    },
    async update(id, changes, actor) {
      if (changes.payload === undefined) return store.update(id, changes, actor)
      // Its version stays: openJob reads a payload that was changed by somebody with codecs, or without.
      const { payload } = await sealJob({ payload: changes.payload, version: 1 }, codecs)
      return store.update(id, { ...changes, payload }, actor)
    },
    async setSchedule(schedule, ...rest) {
      return store.setSchedule(await sealJob(schedule, codecs), ...rest)
    },
  }
}

async function sealJob<T extends Pick<NewJob, 'payload' | 'version'>>(
  job: T,
  codecs: readonly PayloadCodec[],
): Promise<T> {
  // A copy of a sealed job, and a schedule that is set as it was shown.
  if (job.payload.startsWith(PREFIX)) return job
  let bytes: Uint8Array = Buffer.from(job.payload)
  const names: string[] = []
  for (const codec of codecs) {
    const sealed = await codec.seal(bytes)
    if (sealed === null) continue
    bytes = sealed.bytes
    names.push(sealed.key === null ? codec.name : `${codec.name}:${sealed.key}`)
  }
  if (names.length === 0) return job
  if (job.version >= SEALED_VERSION) {
    throw invalidOption(`the version of a job with a sealed payload must be below ${SEALED_VERSION}`, job.version)
  }
  const payload = `${PREFIX}${JSON.stringify(names)},"data":"${Buffer.from(bytes).toString('base64')}"}`
  return { ...job, payload, version: job.version + SEALED_VERSION }
}

async function openJob(job: ClaimedJob, codecs: readonly PayloadCodec[]): Promise<ClaimedJob> {
  if (!isSealed(job)) return job
  const version = job.version >= SEALED_VERSION ? job.version - SEALED_VERSION : job.version
  if (!job.payload.startsWith(PREFIX)) return { ...job, version }
  const { $sealed: names, data } = JSON.parse(job.payload) as {
    readonly $sealed: readonly string[]
    readonly data: string
  }
  let bytes: Uint8Array = Buffer.from(data, 'base64')
  for (const name of [...names].reverse()) {
    const [of, key = null] = name.split(':', 2) as [string, string?]
    const codec = codecs.find((each) => each.name === of)
    if (codec === undefined) throw new NoKey(`is sealed with "${of}", and this process has no such codec`)
    if (!codec.hasKey(key))
      throw new NoKey(`is sealed with the key "${key}" of "${of}", which this process does not have`)
    bytes = await codec.open(bytes, key)
  }
  return { ...job, payload: Buffer.from(bytes).toString(), version }
}

async function openAnswer(answer: Enqueued, codecs: readonly PayloadCodec[]): Promise<Enqueued> {
  if (!('claimed' in answer) || answer.claimed === undefined) return answer
  // What was sealed a moment ago can be opened.
  return { ...answer, claimed: await openJob(answer.claimed, codecs) }
}
