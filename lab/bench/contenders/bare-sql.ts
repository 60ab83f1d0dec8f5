// The limit: a loop of bare statements over the same tables, with no client, no worker, no heartbeat and no retries around it.
// Nothing built on this layout can be faster; what Holdfast adds is the distance to it.

import pg from 'pg'
import { idMaker } from '../../../src/core/id.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { START_OPTIONS } from '../../../src/stores/postgres/lane.js'
import { arrayOf } from '../../../src/stores/postgres/statement.js'
import { systemPorts } from '../../../src/system-ports.js'
import type { Contender, ContenderModule } from '../contender.js'

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

export const bareSql: ContenderModule = {
  note: {
    name: 'bare SQL loop',
    store: 'postgres',
    version: '–',
    settings: 'same tables, batches of 500, claim and settle on two connections',
    lacks: 'everything but the statements: no fence check, no heartbeat, no retries, no types',
  },
  async open({ postgresUrl }): Promise<Contender> {
    await (await postgresStore(postgresUrl, { schema: 'bare' })).close()
    const [writer, claimer, settler] = await Promise.all([1, 2, 3].map(() => dial(postgresUrl)))
    const nextId = idMaker(() => systemPorts.clock.now(), systemPorts.random)
    const write = async (payloads: readonly object[]) => {
      const values = [arrayOf(payloads.map(nextId)), arrayOf(payloads.map((payload) => JSON.stringify(payload)))]
      await writer!.query({ name: 'enqueue', text: ENQUEUE, values })
    }
    return {
      enqueueOne: gather(write),
      enqueueMany: write,
      startWorker: (onJob) => work(claimer!, settler!, onJob),
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

async function work(claimer: pg.Client, settler: pg.Client, onJob: (payload: object) => void) {
  let isOn = true
  const loop = (async () => {
    let settling: Promise<unknown> = Promise.resolve()
    while (isOn) {
      const { rows } = await claimer.query({ name: 'claim', text: CLAIM, values: [BATCH], rowMode: 'array' })
      if (rows.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 1))
        continue
      }
      for (const [, payload] of rows) onJob(payload)
      await settling
      settling = settler.query({ name: 'settle', text: SETTLE, values: [arrayOf(rows.map(([id]) => id))] })
    }
    await settling
  })()
  return async () => {
    isOn = false
    await loop
  }
}
