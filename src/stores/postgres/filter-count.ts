// The fast path for a count: filters that name nothing but states and whole queues are counted in the tables themselves.

import type { JobFilter } from '../../core/job-filter.js'
import type { CountResult } from '../../core/operating.js'
import type { JobState } from '../../core/states.js'
import { exactQueues } from './candidates.js'
import type { Send } from './database.js'
import { arrayOf, type Statement, statement } from './statement.js'

// Each looks at no more than $2 rows, in the order of an index. `looked` is how many, so that the caller knows whether there
// were more.
const counting = (name: string, rows: string, condition = 'true') =>
  statement(
    `count_${name}`,
    `SELECT count(*) FILTER (WHERE ${condition}), count(*) FROM (${rows} LIMIT $2) AS looked, (SELECT $1::text[]) AS asked`,
  )

interface Counting {
  /** Of all queues. */
  readonly all: Statement
  /** Of those in $1; null where the table does not know the queue. */
  readonly some: Statement | null
}

const TRACKS_OF = 'ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = ANY ($1::text[]))'

const COUNTINGS: Readonly<Record<JobState, Counting>> = {
  ready: {
    all: counting('ready', '(SELECT FROM :schema.ready LIMIT $2) UNION ALL (SELECT FROM :schema.held LIMIT $2)'),
    some: counting(
      'ready_of',
      `(SELECT FROM :schema.ready WHERE queue = ANY ($1::text[]) LIMIT $2)
       UNION ALL (SELECT FROM :schema.held WHERE track = ANY (${TRACKS_OF}) LIMIT $2)`,
    ),
  },
  dead: {
    all: counting('dead', 'SELECT FROM :schema.dead'),
    some: counting('dead_of', 'SELECT FROM :schema.dead WHERE queue = ANY ($1::text[])'),
  },
  blocked: countingsOf('blocked', 'SELECT queue FROM :schema.blocked ORDER BY blocked.id'),
  running: countingsOf('running', 'SELECT queue FROM :schema.running ORDER BY running.id'),
  retrying: countingsOf('retrying', 'SELECT queue FROM :schema.scheduled WHERE retrying ORDER BY scheduled.id'),
  scheduled: countingsOf(
    'scheduled',
    'SELECT queue, retrying FROM :schema.scheduled ORDER BY scheduled.id',
    'NOT retrying',
  ),
  succeeded: {
    all: counting('succeeded', 'SELECT ending FROM :schema.finished ORDER BY finished.id DESC', "ending = 'succeeded'"),
    some: null,
  },
  cancelled: {
    all: counting('cancelled', 'SELECT ending FROM :schema.finished ORDER BY finished.id DESC', "ending = 'cancelled'"),
    some: null,
  },
}

const JOBS = counting('jobs', 'SELECT FROM :schema.jobs')

function countingsOf(name: string, rows: string, condition = 'true'): Counting {
  return {
    all: counting(name, rows, condition),
    some: counting(`${name}_of`, rows, `${condition} AND queue = ANY ($1)`),
  }
}

/** The count, or null when the filter asks for more than states and queues. */
export async function countByTable(send: Send, filter: JobFilter, max: number): Promise<CountResult | null> {
  const fields = Object.entries(filter).filter(([, value]) => value !== undefined)
  if (fields.length === 0) return sum(await Promise.all([read(send, JOBS, null, max)]), max)
  const queues = filter.queues === undefined ? null : exactQueues(filter)
  const isPlain = fields.every(([name]) => name === 'states' || name === 'queues')
  if (!isPlain || filter.states === undefined || (filter.queues !== undefined && queues === null)) return null
  if (queues?.length === 0) return { count: 0, isExact: true }
  const statements = [...new Set(filter.states)].map((state) =>
    queues === null ? COUNTINGS[state].all : COUNTINGS[state].some,
  )
  if (statements.includes(null)) return null
  return sum(await Promise.all(statements.map((sql) => read(send, sql!, queues, max))), max)
}

interface Looked {
  readonly count: number
  readonly isAll: boolean
}

async function read(send: Send, sql: Statement, queues: readonly string[] | null, max: number): Promise<Looked> {
  const [[count, looked] = []] = await send(sql, [queues === null ? null : arrayOf(queues), max + 1])
  return { count: Number(count), isAll: Number(looked) <= max }
}

function sum(parts: readonly Looked[], max: number): CountResult {
  const total = parts.reduce((count, part) => count + part.count, 0)
  return { count: Math.min(total, max), isExact: total <= max && parts.every(({ isAll }) => isAll) }
}
