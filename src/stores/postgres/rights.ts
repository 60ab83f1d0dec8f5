// What each role may do with each table and sequence. The script that grants the rights (roles.ts) uses this list, and a test compares
// it with what the server reports. A new table must be added here.

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
const NEW_QUEUE = ['name', 'created_at', 'created_by']
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
  // Jobs with a group or limits, as those of ready. Events, turns and naps are what claims go by.
  held: { producer: ['SELECT', 'INSERT'], worker: ALL, operator: ALL, viewer: READ },
  places: { producer: READ, worker: ALL, operator: ALL, viewer: READ },
  arrivals: { producer: ['INSERT'], worker: ['SELECT', 'INSERT'], operator: ALL, viewer: READ },
  // Written by the functions that claim. A worker has no right to change what was set, how full a bucket is, or who is paused: it
  // claims, settles and reports outcomes by functions, which check what they are asked for.
  rotation: { producer: NONE, worker: READ, operator: ALL, viewer: NONE },
  naps: { producer: NONE, worker: READ, operator: ALL, viewer: NONE },
  tracks: { producer: READ, worker: READ, operator: ALL, viewer: READ },
  // Upkeep looks for forgotten groups under the lock of the queue's row.
  flows: {
    producer: READ,
    worker: ['SELECT', only('UPDATE', ['repaired', 'repaired_at'])],
    operator: ALL,
    viewer: READ,
  },
  limits: { producer: READ, worker: READ, operator: ALL, viewer: READ },
  breaker_moves: { producer: NONE, worker: READ, operator: READ, viewer: READ },
  groups: { producer: NONE, worker: READ, operator: ALL, viewer: READ },
  scheduled: { producer: ['SELECT', 'INSERT'], worker: ALL, operator: ALL, viewer: READ },
  // A job whose parents have finished already goes on immediately, by the function that its enqueue calls.
  blocked: {
    producer: ['SELECT', 'INSERT'],
    worker: ALL,
    operator: ALL,
    viewer: READ,
  },
  parents: {
    producer: ['SELECT', 'INSERT'],
    worker: ['SELECT', 'INSERT', 'DELETE'],
    operator: ['SELECT', 'INSERT', 'DELETE'],
    viewer: READ,
  },
  link_checks: {
    producer: ['SELECT', 'INSERT'],
    worker: ['SELECT', 'INSERT', 'DELETE'],
    operator: ['SELECT', 'INSERT', 'DELETE'],
    viewer: READ,
  },
  running: { producer: [only('SELECT', ['id'])], worker: ALL, operator: ALL, viewer: READ },
  finished: {
    producer: [only('SELECT', ['id', 'ending'])],
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
  // What long jobs keep, with values that may hold secrets.
  kept: { producer: NONE, worker: ALL, operator: ALL, viewer: NONE },
  output: { producer: NONE, worker: ALL, operator: ALL, viewer: NONE },
  signals: { producer: NONE, worker: ALL, operator: ALL, viewer: NONE },
  waits: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  // A producer frees expired keys by a function: the right to remove rows would also be one to lock everybody out of the table.
  keys: { producer: ['SELECT', 'INSERT'], worker: ALL, operator: ALL, viewer: READ },
  // Cancels that wait for a row's lock. A settlement honours them.
  cancels: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  // Where the owner's walks through finished jobs are.
  early_walks: { producer: NONE, worker: NONE, operator: NONE, viewer: NONE },
  early_later: { producer: NONE, worker: NONE, operator: NONE, viewer: NONE },
  // Ids alone. Written by the function that deletes.
  deleted: { producer: READ, worker: READ, operator: READ, viewer: NONE },
  queues: {
    producer: [only('INSERT', NEW_QUEUE), only('SELECT', ['name', 'created_by'])],
    worker: ['SELECT', only('INSERT', NEW_QUEUE)],
    operator: ALL,
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
  // Written by a function that lets a producer count only what was enqueued.
  tallies: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  samples: { producer: NONE, worker: ALL, operator: ALL, viewer: READ },
  bulks: {
    producer: NONE,
    worker: ['SELECT', only('UPDATE', BULK_PROGRESS)],
    operator: ['SELECT', 'INSERT', 'UPDATE'],
    viewer: READ,
  },
  api_keys: { producer: NONE, worker: NONE, operator: ['SELECT', 'INSERT', 'UPDATE'], viewer: NONE },
  // Written by a function that takes no arguments: it records the server's own timeline.
  timeline: { producer: READ, worker: READ, operator: READ, viewer: READ },
  // Written by a function that takes a client's own numbers.
  marks: { producer: NONE, worker: READ, operator: READ, viewer: READ },
  // Only the owner closes days; others see which are postponed. A trigger with the owner's rights records changes of their jobs.
  closing_days: { producer: READ, worker: READ, operator: READ, viewer: READ },
  closing_slices: { producer: NONE, worker: NONE, operator: NONE, viewer: NONE },
  closing_changes: { producer: NONE, worker: NONE, operator: NONE, viewer: NONE },
  // The secret with which servers encrypt cursors.
  secrets: { producer: NONE, worker: NONE, operator: ['SELECT', 'INSERT'], viewer: READ },
  // Every process asks at its start whether the schema is up to date.
  migrations: { producer: READ, worker: READ, operator: READ, viewer: READ },
}

/** A row-level rule for a role: which rows it may see, lock or remove (`using`), and which it may write (`check`). */
export interface RowRule {
  readonly right: Right
  readonly using?: string
  readonly check?: string
}

// A statement does not see what it writes itself, so a job that it has just written is not there yet: only new jobs get rows.
// A longer name fits no index on the way of the job, and would stop the statement that moves it together with others.
const isGroupName = (table: string) => `length(${table}.group_name) <= 200`
const isNewJob = (column: string) => `NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = ${column})`
const SEES_ALL: RowRule = { right: 'SELECT', using: 'true' }

/**
 * Row-level rules by table, for roles that could otherwise do too much. Tables that are not listed have none. A role that is not named
 * may use all rows that its rights allow. The rules do not apply to the owner and to superusers.
 */
export const ROW_RULES: Readonly<Record<string, Partial<Readonly<Record<RoleName, readonly RowRule[]>>>>> = {
  ready: {
    producer: [
      SEES_ALL,
      {
        right: 'INSERT',
        check: `NOT moved AND fence IS NULL AND attempt IS NULL AND crashes IS NULL AND ${isNewJob('ready.id')}`,
      },
    ],
  },
  held: {
    producer: [
      SEES_ALL,
      {
        right: 'INSERT',
        check: `fence IS NULL AND attempt IS NULL AND crashes IS NULL AND ${isGroupName('held')} AND ${isNewJob('held.id')}`,
      },
    ],
  },
  arrivals: { producer: [{ right: 'INSERT', check: isGroupName('arrivals') }] },
  scheduled: {
    producer: [
      SEES_ALL,
      {
        right: 'INSERT',
        check: `NOT retrying AND fence IS NULL AND attempt = 0 AND crashes = 0 AND ${isGroupName('scheduled')} AND ${isNewJob('scheduled.id')}`,
      },
    ],
  },
  blocked: {
    producer: [SEES_ALL, { right: 'INSERT', check: `${isGroupName('blocked')} AND ${isNewJob('blocked.id')}` }],
  },
  parents: { producer: [SEES_ALL, { right: 'INSERT', check: isNewJob('parents.child') }] },
  keys: { producer: [SEES_ALL, { right: 'INSERT', check: isNewJob('keys.id') }] },
  // A worker does the bulk actions of operators, and records them under the operator's name while the action is open. Otherwise it may
  // only use the library's name, its login's, and the default name of callers.
  audit: {
    worker: [
      SEES_ALL,
      {
        right: 'INSERT',
        check:
          `actor IN ('holdfast', 'api', session_user) OR EXISTS (SELECT FROM :schema.bulks` +
          ` WHERE bulks.actor = audit.actor AND bulks.state IN ('waiting', 'running'))`,
      },
    ],
  },
}

/** The roles that may call a function; no other function may be called by anyone but the owner. */
export const FUNCTION_RIGHTS: Readonly<Record<string, readonly RoleName[]>> = {
  'enqueue(text, json, text, integer, timestamptz, interval, integer, interval, interval, text, interval, uuid[], text, text[], boolean)':
    ['producer', 'worker', 'operator'],
  'wake_parked(timestamptz, uuid[])': ['worker', 'operator'],
  'signal_job(timestamptz, uuid, text, text, json, text, integer)': ['worker', 'operator'],
  'delete_jobs(timestamptz, uuid[], text)': ['worker', 'operator'],
  'note_deleted(uuid[])': ['worker', 'operator'],
  'note_timeline()': ['producer', 'worker', 'operator', 'viewer'],
  'mark(uuid, text, bigint, integer, uuid)': ['producer', 'worker', 'operator'],
  'missing()': ['producer', 'worker', 'operator', 'viewer'],
  'report_missing()': ['producer', 'worker', 'operator'],
  'say_again_turn()': ['producer', 'worker', 'operator'],
  'drop_second_places(uuid[])': ['producer', 'worker', 'operator'],
  'unblock(timestamptz, uuid[], uuid[])': ['producer', 'worker', 'operator'],
  'make_track(text, text[], integer)': ['producer', 'worker', 'operator'],
  'keep_limit(timestamptz, text, text, json, json, integer, float8, float8, float8, boolean, integer)': [
    'worker',
    'operator',
  ],
  'open_flow(text)': ['worker', 'operator'],
  'lock_limit(text)': ['worker', 'operator'],
  'keep_breaker(text, text, float8, float8, integer, integer, json, bigint, bigint)': ['worker', 'operator'],
  'keep_level(text, json, integer)': ['worker', 'operator'],
  'note_breaker(text, float8, text, text, bigint, bigint, text)': ['operator'],
  'move_limits(timestamptz, text[], float8[], float8[], uuid[])': ['worker', 'operator'],
  'move_groups(timestamptz, text[], text[], uuid[], float8[], float8[], uuid[])': ['worker', 'operator'],
  'prune_flow(timestamptz, text, text, integer)': ['worker', 'operator'],
  'claim_flow_25(timestamptz, text, integer, text[], float8, text, integer[], bigint[], text[], integer[], integer)': [
    'worker',
    'operator',
  ],
  'walk_held(text, integer)': ['worker', 'operator'],
  'rate_wait_ms(float8, float8, float8, float8, float8, float8)': ['worker', 'operator'],
  'rate_draw(float8, float8, float8, float8, float8, float8)': ['worker', 'operator'],
  'cost_of(json)': ['worker', 'operator'],
  'keys_in_writing(text[], text[], integer)': ['producer', 'worker', 'operator'],
  'keys_in_replacing(text[], text[], integer)': ['producer', 'worker', 'operator'],
  'replace_payload(timestamptz, text, text, uuid, text, json, smallint, smallint, json, text[], text[], text, float8, float8, boolean, text)':
    ['producer', 'worker', 'operator'],
  'free_expired_keys(timestamptz, text[], text[], uuid[])': ['producer', 'worker', 'operator'],
  'tally(timestamptz, text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], float8[], float8[])':
    ['producer', 'worker', 'operator'],
}

/** The roles that draw numbers from a sequence. */
export const SEQUENCE_RIGHTS: Readonly<Record<string, readonly RoleName[]>> = {
  positions: ['producer', 'worker', 'operator'],
  log_lines: ['worker', 'operator'],
  audit_lines: ['worker', 'operator'],
}
