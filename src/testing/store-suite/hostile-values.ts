// Hostile values: text and JSON that mean something to a database, a parser or a prototype come back as they went in.

import { KEY_LENGTH_MAX, NAME_LENGTH_MAX, TAG_LENGTH_MAX, TAGS_MAX } from '../../core/check.js'
import { type Facts, factsFor } from './context.js'
import {
  keyed,
  LEASE_MS,
  newBeat,
  newJob,
  newNote,
  newSchedule,
  OPERATOR,
  QUEUE,
  retrying,
  START_MS,
  succeeded,
  WORKER,
} from './samples.js'
import { claimJob, claimJobs, enqueueEach, enqueueJob, jobIn, listIds, startJob, viewOf } from './steps.js'

/** Text without control characters: what keys and tags may hold. */
const TEXTS: readonly string[] = [
  'C:\\temp\\',
  '\\',
  '\\"\\\\"',
  '"quoted"',
  "it's o''clock",
  '{a,{b}}',
  '{}',
  ',,',
  'NULL',
  'null',
  '"NULL"',
  '$1 $$ $a$',
  '%s %I %1$L',
  "'; DROP TABLE jobs; --",
  ':schema',
  ' leading and trailing ',
  '\\u0000 \\x00 \\n',
  '__proto__',
  'constructor',
  '👩‍👩‍👧 🎉 ﷽ é',
]

/** Text as errors and log lines may hold it too. */
const WILD_TEXTS: readonly string[] = [
  ...TEXTS,
  'line one\nline two\r\n\ttabbed',
  '\u0001\u001b[31m\u007f',
  '',
  'x'.repeat(100_000),
]

const NAMES: readonly string[] = [
  'NULL',
  'null',
  'true',
  '0',
  '1e3',
  'constructor',
  'toString',
  'hasOwnProperty',
  'a/b:c@d.e_f-g',
  'N'.repeat(NAME_LENGTH_MAX),
]

const JSONS: Readonly<Record<string, string>> = {
  'a NUL': '"a\\u0000b"',
  'a NUL in a name': '{"\\u0000":1}',
  'a lone high surrogate': '"\\ud800"',
  'a lone low surrogate': '["\\udc00x"]',
  emoji: JSON.stringify(['👩‍👩‍👧', '🎉', '\u2028']),
  'a name that is __proto__': '{"__proto__":{"isAdmin":true},"constructor":{"prototype":1}}',
  'the notation of arrays': '["{NULL}","{}","\\\\","\\"","a,b"]',
  'quotes and semicolons': JSON.stringify({ sql: `'; DROP TABLE jobs; -- "$1" :schema` }),
  'a name twice': '{"a":1,"a":2}',
  'white space around it': ' {\n"a" :\t1 } ',
  'numbers no double holds': '[12345678901234567890,1e400,0.10000000000000000001]',
  'arrays 400 deep': '['.repeat(400) + ']'.repeat(400),
  'objects 400 deep': `${'{"a":'.repeat(400)}1${'}'.repeat(400)}`,
  'a megabyte': JSON.stringify('x'.repeat(1024 * 1024 - 2)),
  'a megabyte of escapes': JSON.stringify('"\\'.repeat(256 * 1024)),
  'nothing but null': 'null',
  'nothing but an empty text': '""',
}

/** JSON text in one form, so that what was parsed can be compared with what was written. The facts compare whether they are
 *  equal and not how they differ: nobody reads a megabyte. */
function plain(json: string): string {
  return JSON.stringify(JSON.parse(json))
}

const json: Facts = {
  ...factsFor(
    Object.entries(JSONS),
    ([what]) => `a payload with ${what} reaches the worker to the letter`,
    async ({ store, expect }, [, text]) => {
      await enqueueJob(store, { payload: text })

      const { payload } = await claimJob(store)

      expect(payload === text).toBe(true)
    },
  ),

  ...factsFor(
    Object.entries(JSONS),
    ([what]) => `a payload with ${what} is shown`,
    async ({ store, expect }, [, text]) => {
      const id = await enqueueJob(store, { payload: text, tags: ['shown'] })

      const { payload } = await viewOf(store, id)

      expect(JSON.stringify(payload) === plain(text)).toBe(true)
    },
  ),

  ...factsFor(
    Object.entries(JSONS),
    ([what]) => `a result with ${what} is kept`,
    async ({ store, expect }, [, text]) => {
      const job = await startJob(store)

      await store.settle([succeeded(job, { result: text })])

      expect(JSON.stringify((await viewOf(store, job.id)).result) === plain(text)).toBe(true)
    },
  ),

  ...factsFor(
    Object.entries(JSONS),
    ([what]) => `progress with ${what} is kept`,
    async ({ store, expect }, [, text]) => {
      const job = await startJob(store)

      await store.note([newNote(job, { progress: text })])

      expect(JSON.stringify((await viewOf(store, job.id)).progress) === plain(text)).toBe(true)
    },
  ),

  'a payload that is put in place of another reaches the worker to the letter': async ({ store, expect }) => {
    const ids = await enqueueEach(
      store,
      Object.keys(JSONS).map(() => ({})),
    )
    const texts = Object.values(JSONS)

    for (const [index, id] of ids.entries()) await store.update(id, { payload: texts[index]! }, OPERATOR)

    const payloads = (await claimJobs(store)).map(({ payload }) => payload)
    expect(payloads.every((payload, index) => payload === texts[index])).toBe(true)
  },

  'the payload of a schedule is kept to the letter': async ({ store, expect }) => {
    for (const [name, payload] of Object.entries(JSONS)) {
      await store.setSchedule(newSchedule({ name, payload }), START_MS, OPERATOR)
    }

    const kept = (await store.schedules()).map(({ name, payload }) => payload === JSONS[name])
    expect(kept).toEqual(Object.keys(JSONS).map(() => true))
  },

  'jobs of one batch with every payload do not disturb each other': async ({ store, expect }) => {
    const jobs = Object.values(JSONS).map((payload) => newJob({ payload }))

    await store.enqueue(jobs)

    const payloads = (await claimJobs(store)).map(({ payload }) => payload)
    expect(payloads.every((payload, index) => payload === jobs[index]!.payload)).toBe(true)
  },
}

const texts: Facts = {
  'every text survives as a tag': async ({ store, expect }) => {
    const jobs = TEXTS.map((text) => newJob({ tags: [text, `and ${text}`] }))

    await store.enqueue(jobs)

    expect((await claimJobs(store)).map(({ tags }) => tags)).toEqual(jobs.map(({ tags }) => tags))
  },

  'every text is found as a tag': async ({ store, expect }) => {
    const ids = await enqueueEach(
      store,
      TEXTS.map((text) => ({ tags: ['first', text] })),
    )

    const found = await Promise.all(TEXTS.map((tag) => listIds(store, { tags: [[tag]] })))

    expect(found).toEqual(ids.map((id) => [id]))
  },

  'every text survives as a key': async ({ store, expect }) => {
    const ids = await enqueueEach(
      store,
      TEXTS.map((text) => keyed(text)),
    )

    const views = await Promise.all(ids.map((id) => viewOf(store, id)))

    expect(views.map(({ idempotencyKey }) => idempotencyKey)).toEqual(TEXTS)
  },

  'every text keeps others away as a key': async ({ store, expect }) => {
    const ids = await enqueueEach(
      store,
      TEXTS.map((text) => keyed(text)),
    )

    const answers = await store.enqueue(TEXTS.map((text) => newJob(keyed(text))))

    expect(answers).toEqual(ids.map((id) => ({ id, created: false, state: 'ready' })))
  },

  'every text is freed as a key': async ({ store, expect }) => {
    await enqueueEach(
      store,
      TEXTS.map((text) => keyed(text)),
    )
    await store.settle((await claimJobs(store)).map((job) => succeeded(job)))

    const answers = await store.enqueue(TEXTS.map((text) => newJob(keyed(text))))

    expect(answers.filter((answer) => 'created' in answer && answer.created)).toHaveLength(TEXTS.length)
  },

  'every text survives as trace': async ({ store, expect }) => {
    await store.enqueue(TEXTS.map((trace) => newJob({ trace })))

    expect((await claimJobs(store)).map(({ trace }) => trace)).toEqual(TEXTS)
  },

  'every text survives in an error': async ({ store, expect }) => {
    await store.enqueue(WILD_TEXTS.map(() => newJob()))
    const jobs = await claimJobs(store)
    const errors = WILD_TEXTS.map((text) => ({ name: text, message: text, code: text, stack: text }))

    await store.settle(jobs.map((job, index) => retrying(job, 0, { error: errors[index]! })))

    const views = await Promise.all(jobs.map(({ id }) => viewOf(store, id)))
    expect(views.map(({ error }) => error)).toEqual(errors)
  },

  'an error may hold what no text can': async ({ store, expect }) => {
    const job = await startJob(store)
    const error = { name: 'Error', message: 'NUL \u0000, high \ud800, low \udc00' }

    await store.settle([retrying(job, 0, { error })])

    expect((await viewOf(store, job.id)).attempts[0]!.error).toEqual(error)
  },

  'every text survives as a log line': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.note([newNote(job, { logs: WILD_TEXTS.map((text) => ({ atMs: START_MS, text })) })])

    expect((await viewOf(store, job.id)).logs.map(({ text }) => text)).toEqual(WILD_TEXTS)
  },

  'every text survives as the name of an operator': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead', { tags: ['requeued'] })
    const by = TEXTS.join(' ')

    await store.requeue([id], by)

    expect((await viewOf(store, id)).requeues.map((requeue) => requeue.by)).toEqual([by])
  },

  'every text survives as the host of a worker': async ({ store, expect }) => {
    for (const [index, host] of TEXTS.entries()) await store.beat(newBeat({ id: String(100 + index), host }))

    expect((await store.workers()).map(({ host }) => host)).toEqual(TEXTS)
  },

  'every text survives as the worker of a lease': async ({ store, expect }) => {
    const worker = TEXTS.join(' ')

    const job = await startJob(store, {}, { worker })
    await store.settle([retrying(job, 0)])

    expect((await viewOf(store, job.id)).attempts[0]!.worker).toBe(worker)
  },
}

const names: Facts = {
  'every name can be that of a queue': async ({ store, expect }) => {
    const ids = await enqueueEach(
      store,
      NAMES.map((queue) => ({ queue })),
    )
    const queues = NAMES.map((queue) => ({ queue, limit: 5 }))

    const { jobs } = await store.claim({ queues, types: null, worker: WORKER, leaseMs: LEASE_MS })

    expect(jobs.map(({ id, queue }) => [id, queue])).toEqual(ids.map((id, index) => [id, NAMES[index]]))
  },

  'a queue of every name is known and can be paused': async ({ store, expect }) => {
    for (const name of NAMES) await store.pause(name, OPERATOR)

    expect((await store.queues()).map(({ name, paused }) => [name, paused])).toEqual(
      [...NAMES].sort().map((name) => [name, true]),
    )
  },

  'every name can be that of a type': async ({ store, expect }) => {
    const ids = await enqueueEach(
      store,
      NAMES.map((type) => ({ type })),
    )

    const claimed: string[] = []
    for (const type of NAMES) claimed.push((await claimJob(store, { types: [type] })).id)

    expect(claimed).toEqual(ids)
  },

  'a queue nobody made is not there, whatever its name': async ({ store, expect }) => {
    const claims = await Promise.all(NAMES.map((queue) => claimJobs(store, { queue })))

    expect(claims.flat()).toEqual([])
  },

  'a job may carry the most and the longest tags': async ({ store, expect }) => {
    const tags = Array.from({ length: TAGS_MAX }, (_, index) => `${index}`.padEnd(TAG_LENGTH_MAX, 'ü'))

    const job = await startJob(store, { tags })

    expect(job.tags).toEqual(tags)
  },

  'the longest keys differ by their last character': async ({ store, expect }) => {
    const [one, other] = ['1', '2'].map((end) => keyed(end.padStart(KEY_LENGTH_MAX, 'é')))

    const answers = await store.enqueue([newJob(one), newJob(other)])

    expect(answers.map((answer) => 'created' in answer && answer.created)).toEqual([true, true])
  },

  'settings of a queue survive every text in them': async ({ store, expect }) => {
    const settings = { limits: { retry: { backoff: [1, 2], baseMs: 1, capMs: 2, jitter: true }, timeoutMs: null } }

    await store.setQueue(QUEUE, settings, TEXTS.join(' '))

    expect((await store.queues())[0]!.settings).toEqual(settings)
  },
}

export const hostileFacts: Facts = { ...json, ...texts, ...names }
