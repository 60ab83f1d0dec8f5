// What each role may do with each table and sequence: one list for the script that grants it (roles.ts) and for the test that
// holds the server's own answer against it. Whoever adds a table adds it here.

/** The roles beside the owner, who owns everything and alone may migrate and make or drop the days. */
export const ROLES = ['producer', 'worker', 'operator', 'viewer'] as const
export type RoleName = (typeof ROLES)[number]

export type Right = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'

/** A right on a whole table, or on some of its columns. */
export type Grant = Right | { readonly right: Right; readonly columns: readonly string[] }

const ALL: readonly Grant[] = ['SELECT', 'INSERT', 'UPDATE', 'DELETE']
const READ: readonly Grant[] = ['SELECT']
const NONE: readonly Grant[] = []

// Everything but the payload.
const JOB_FACTS = ['id', 'created_at', 'position', 'priority', 'version', 'queue', 'type', 'options', 'tags']
// Everything but the result.
const ENDING_FACTS = ['id', 'finished_at', 'started_at', 'fence', 'attempt', 'crashes', 'ending', 'worker']
const BULK_PROGRESS = ['state', 'matched', 'done', 'refused', 'cursor', 'updated_at', 'error']

function only(right: Right, columns: readonly string[]): Grant {
  return { right, columns }
}

/**
 * Rights by table. A row that is locked before it is deleted takes UPDATE as well. Partitions are reached through their parents
 * and need no rights of their own, so a day made tomorrow needs no grant.
 */
export const TABLE_RIGHTS: Readonly<Record<string, Readonly<Record<RoleName, readonly Grant[]>>>> = {
  jobs: {
    producer: ['INSERT', only('SELECT', JOB_FACTS)],
    worker: ['SELECT', 'INSERT'],
    operator: ['SELECT', 'INSERT', only('UPDATE', ['priority', 'payload'])],
    viewer: [only('SELECT', JOB_FACTS)],
  },
  ready: { producer: ['SELECT', 'INSERT'], worker: ALL, operator: ALL, viewer: READ },
  scheduled: { producer: ['SELECT', 'INSERT'], worker: ALL, operator: ALL, viewer: READ },
  // A job whose parents have finished already goes on at once, by the hand of whoever enqueues it.
  blocked: {
    producer: ['SELECT', 'INSERT', 'DELETE'],
    worker: ['SELECT', 'INSERT', 'DELETE'],
    operator: ALL,
    viewer: READ,
  },
  parents: {
    producer: ['SELECT', 'INSERT', 'DELETE'],
    worker: ['SELECT', 'INSERT', 'DELETE'],
    operator: ['SELECT', 'INSERT', 'DELETE'],
    viewer: READ,
  },
  running: { producer: [only('SELECT', ['id'])], worker: ALL, operator: ALL, viewer: READ },
  finished: {
    producer: ['INSERT', only('SELECT', ['id', 'ending'])],
    worker: ['SELECT', 'INSERT'],
    operator: ['SELECT', 'INSERT'],
    viewer: [only('SELECT', ENDING_FACTS)],
  },
  dead: { producer: [only('SELECT', ['id'])], worker: ALL, operator: ALL, viewer: READ },
  attempts: { producer: NONE, worker: ['SELECT', 'INSERT'], operator: ['SELECT', 'INSERT'], viewer: READ },
  logs: { producer: NONE, worker: ['SELECT', 'INSERT'], operator: ['SELECT', 'INSERT'], viewer: NONE },
  progress: {
    producer: NONE,
    worker: ['SELECT', 'INSERT', 'UPDATE'],
    operator: ['SELECT', 'INSERT', 'UPDATE'],
    viewer: NONE,
  },
  keys: { producer: ALL, worker: ALL, operator: ALL, viewer: READ },
  queues: {
    producer: [only('INSERT', ['name'])],
    worker: ['SELECT', only('INSERT', ['name'])],
    operator: ['SELECT', 'INSERT', 'UPDATE'],
    viewer: READ,
  },
  // Their settings hold payloads. A worker moves them on and cannot change what they do.
  schedules: {
    producer: NONE,
    worker: ['SELECT', only('UPDATE', ['next_at', 'last_at', 'last_job'])],
    operator: ALL,
    viewer: NONE,
  },
  ticks: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  workers: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  // Nobody but the owner can change or remove a line.
  audit: { producer: NONE, worker: ['SELECT', 'INSERT'], operator: ['SELECT', 'INSERT'], viewer: READ },
  tallies: { producer: ['SELECT', 'INSERT', 'UPDATE'], worker: ALL, operator: ALL, viewer: READ },
  samples: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  bulks: {
    producer: NONE,
    worker: ['SELECT', only('UPDATE', BULK_PROGRESS)],
    operator: ['SELECT', 'INSERT', 'UPDATE'],
    viewer: READ,
  },
  api_keys: { producer: NONE, worker: NONE, operator: ['SELECT', 'INSERT', 'UPDATE'], viewer: NONE },
  // Every process asks at its start whether the schema is up to date.
  migrations: { producer: READ, worker: READ, operator: READ, viewer: READ },
}

/** The roles that draw numbers from a sequence. */
export const SEQUENCE_RIGHTS: Readonly<Record<string, readonly RoleName[]>> = {
  positions: ['producer', 'worker', 'operator'],
  log_lines: ['worker', 'operator'],
  audit_lines: ['worker', 'operator'],
}
