// The limit: a loop of bare statements over the same tables, with no client, no worker, no heartbeat and no retries around it.
// Nothing built on this layout can be faster. The difference is what Holdfast adds.

import pg from 'pg'
import { idMaker } from '../../../src/core/id.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { START_OPTIONS } from '../../../src/stores/postgres/session.js'
import { arrayOf } from '../../../src/stores/postgres/statement.js'
import { systemPorts } from '../../../src/system-ports.js'
import type { Contender, ContenderModule, Feature } from '../contender.js'

const BATCH = 500

const ENQUEUE = `
WITH written AS (
  INSERT INTO bare.jobs (id, created_at, position, priority, version, queue, type, payload)
  SELECT id, clock_timestamp(), nextval('bare.positions') * 65536, 0, 1, 'default', 'noop', payload
    FROM unnest($1::uuid[], $2::json[]) AS input (id, payload)
  RETURNING id, created_at, position
)
INSERT INTO bare.ready (id, position, since, priority, moved, queue, type)
SELECT id, position, created_at, 0, false, 'default', 'noop' FROM written`

// With a key on each job, as in the layout: the key in its own table, and in the job's options so that settling can free it.
const ENQUEUE_KEYED = `
WITH input AS MATERIALIZED (
  SELECT id, payload, key FROM unnest($1::uuid[], $2::json[], $3::text[]) AS input (id, payload, key)
), held AS (
  INSERT INTO bare.keys (queue, key, id)
  SELECT 'default', key, id FROM input
), written AS (
  INSERT INTO bare.jobs (id, created_at, position, priority, version, queue, type, payload, options)
  SELECT id, clock_timestamp(), nextval('bare.positions') * 65536, 0, 1, 'default', 'noop', payload,
         json_build_object('key', json_build_object('key', key))
    FROM input
  RETURNING id, created_at, position
)
INSERT INTO bare.ready (id, position, since, priority, moved, queue, type)
SELECT id, position, created_at, 0, false, 'default', 'noop' FROM written`

const CLAIM = `
WITH taken AS MATERIALIZED (
  SELECT ctid AS place FROM bare.ready WHERE queue = 'default' ORDER BY priority DESC, position LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM bare.ready WHERE ctid = ANY (ARRAY(SELECT place FROM taken)) RETURNING id, queue, type
), leased AS (
  INSERT INTO bare.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested, queue, type, worker)
  SELECT id, 1, clock_timestamp(), clock_timestamp() + interval '30 seconds', 0, 1, 0, false, false, queue, type, 'bare' FROM gone
)
SELECT gone.id, facts.payload
  FROM gone
 CROSS JOIN LATERAL (SELECT payload FROM bare.jobs WHERE jobs.id = gone.id OFFSET 0) AS facts`

const SETTLE = `
WITH gone AS (
  DELETE FROM bare.running WHERE id = ANY ($1::uuid[]) RETURNING id, fence, claimed_at, worker
)
INSERT INTO bare.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker)
SELECT id, clock_timestamp(), claimed_at, fence, 1, 0, 'succeeded', worker FROM gone`

const SETTLE_KEYED = `
WITH gone AS (
  DELETE FROM bare.running WHERE id = ANY ($1::uuid[]) RETURNING id, fence, claimed_at, worker
), freed AS (
  DELETE FROM bare.keys WHERE id = ANY (ARRAY(SELECT id FROM gone))
)
INSERT INTO bare.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker)
SELECT id, clock_timestamp(), claimed_at, fence, 1, 0, 'succeeded', worker FROM gone`

const SETTLE_RESULTS = `
WITH gone AS (
  DELETE FROM bare.running WHERE id = ANY ($1::uuid[]) RETURNING id, fence, claimed_at, worker
)
INSERT INTO bare.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
SELECT gone.id, clock_timestamp(), claimed_at, fence, 1, 0, 'succeeded', worker, outcome.result
  FROM gone
  JOIN unnest($1::uuid[], $2::json[]) AS outcome (id, result) ON outcome.id = gone.id`

export const bareSql: ContenderModule = {
  note: {
    name: 'bare SQL loop',
    store: 'postgres',
    version: '–',
    settings: 'same tables, batches of 500, claim and settle on two connections',
    lacks: 'everything but the statements: no fence check, no heartbeat, no retries, no types',
  },
  drainShare: () => 1,
  cannot: { retries: 'it is a loop without retries' },
  async open({ postgresUrl }, feature): Promise<Contender> {
    await (await postgresStore(postgresUrl, { schema: 'bare' })).close()
    const [writer, claimer, settler] = await Promise.all([1, 2, 3].map(() => dial(postgresUrl)))
    const nextId = idMaker(() => systemPorts.clock.now(), systemPorts.random)
    const write = async (payloads: readonly object[], keys?: readonly string[]) => {
      const values = [arrayOf(payloads.map(nextId)), arrayOf(payloads.map((payload) => JSON.stringify(payload)))]
      await writer!.query(
        keys === undefined
          ? { name: 'enqueue', text: ENQUEUE, values }
          : { name: 'enqueue_keyed', text: ENQUEUE_KEYED, values: [...values, arrayOf(keys)] },
      )
    }
    return {
      enqueueOne: gather(write),
      enqueueMany: write,
      startWorker: (onJob) => work(claimer!, (ids, results) => settle(settler!, feature, ids, results), onJob),
      async close() {
        await Promise.all([writer, claimer, settler].map((client) => client!.end()))
      },
    }
  },
}

async function dial(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString, options: START_OPTIONS, pipeline: true } as pg.ClientConfig)
  await client.connect()
  return client
}

/** Group commit in its shortest form. */
function gather(write: (payloads: readonly object[]) => Promise<void>): (payload: object) => Promise<void> {
  const waiting: { payload: object; done: () => void; failed: (error: unknown) => void }[] = []
  let isBusy = false
  const flush = async () => {
    isBusy = true
    while (waiting.length > 0) {
      const group = waiting.splice(0, 1_000)
      try {
        await write(group.map(({ payload }) => payload))
        for (const { done } of group) done()
      } catch (error) {
        for (const { failed } of group) failed(error)
      }
      await new Promise((resolve) => setImmediate(resolve))
    }
    isBusy = false
  }
  return (payload) =>
    new Promise((done, failed) => {
      waiting.push({ payload, done, failed })
      if (!isBusy) setImmediate(() => !isBusy && void flush())
    })
}

async function settle(
  settler: pg.Client,
  feature: Feature | null,
  ids: readonly string[],
  results: readonly unknown[],
): Promise<void> {
  if (feature === 'results') {
    const values = [arrayOf(ids), arrayOf(results.map((result) => JSON.stringify(result)))]
    await settler.query({ name: 'settle_results', text: SETTLE_RESULTS, values })
  } else if (feature === 'keys') {
    await settler.query({ name: 'settle_keyed', text: SETTLE_KEYED, values: [arrayOf(ids)] })
  } else await settler.query({ name: 'settle', text: SETTLE, values: [arrayOf(ids)] })
}

async function work(
  claimer: pg.Client,
  settleBatch: (ids: readonly string[], results: readonly unknown[]) => Promise<void>,
  onJob: (payload: object) => unknown,
) {
  let isOn = true
  const loop = (async () => {
    let settling: Promise<unknown> = Promise.resolve()
    while (isOn) {
      const { rows } = await claimer.query({ name: 'claim', text: CLAIM, values: [BATCH], rowMode: 'array' })
      if (rows.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 1))
        continue
      }
      const results = rows.map(([, payload]) => onJob(payload))
      await settling
      settling = settleBatch(
        rows.map(([id]) => id),
        results,
      )
    }
    await settling
  })()
  return async () => {
    isOn = false
    await loop
  }
}
