// Random sequences of operations. The values are few and close together, so that operations meet.

import fc from 'fast-check'
import { fingerprint } from '../../src/core/fingerprint.js'
import type { JobFlow } from '../../src/core/flow/job-flow.js'
import type { IdempotencyKey } from '../../src/core/job.js'
import type { JobFilter } from '../../src/core/job-filter.js'
import type { StoredError } from '../../src/core/json.js'
import type { JobLimits } from '../../src/core/limits.js'
import { DEAD_REASONS, JOB_STATES } from '../../src/core/states.js'
import type { QueueSettings } from '../../src/core/views.js'
import { FLOW_FIELDS, FLOW_KINDS, type FlowKind, holdOff, jobFlow, replaceRule, spent } from './flow-operations.js'
import type { JobReference, JobSketch, Kind, LeaseReference, Operation, SettlementSketch } from './operation.js'

export const QUEUES = ['email', 'image', 'report'] as const
const TYPES = ['send', 'resize', 'print'] as const
const SCHEDULES = ['hourly', 'nightly'] as const
const WORKERS = ['worker-a', 'worker-b'] as const
const KEYS = ['welcome', '"a, b"\\{NULL}', 'ключ'] as const
const TAGS = ['red', 'NULL', 'a,b', '{"x"}', '\\', ' '] as const
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const queue = fc.constantFrom(...QUEUES)
const type = fc.constantFrom(...TYPES)
const priority = fc.constantFrom(0, 0, 0, 1, -1, 32_767, -32_768)
const payload = fc.constantFrom('null', '{"a":1}', ' [1, "\\u0000\\ud800"] ', '"\\"quoted\\" \\\\ {},"')
const limits: fc.Arbitrary<JobLimits> = fc.constantFrom(
  {},
  {},
  { maxAttempts: 3 },
  { timeoutMs: null, maxAgeMs: 5_000 },
  { maxAttempts: 1, retry: { backoff: [1_000, 2_000], baseMs: 1_000, capMs: 60_000, jitter: false } },
)
const trace = fc.constantFrom(null, null, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')
const tags = fc.uniqueArray(fc.constantFrom(...TAGS), { maxLength: 3 })

// Most of what happens to jobs happens to those that were touched last; old ones come up too.
const back = fc.oneof({ weight: 3, arbitrary: fc.nat(7) }, { weight: 1, arbitrary: fc.nat(200) })
const jobOf = (...of: ('any' | 'dead')[]): fc.Arbitrary<JobReference> =>
  fc.oneof(
    { weight: 30, arbitrary: fc.record({ of: fc.constantFrom(...of), back }) },
    { weight: 1, arbitrary: fc.constant('unknown' as const) },
  )
const job = jobOf('any', 'any', 'any', 'dead')
const lease: fc.Arbitrary<LeaseReference> = fc.record({
  of: fc.constantFrom('held', 'held', 'held', 'any'),
  back,
  // A wrong fence is one below, or one that no claim has got to yet.
  fenceShift: fc.oneof({ weight: 20, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(-1, 1e9) }),
})

const key: fc.Arbitrary<IdempotencyKey | null> = fc.oneof(
  fc.constant(null),
  fc.record({ key: fc.constantFrom(...KEYS), ttlMs: fc.constantFrom(null, null, SECOND, MINUTE, DAY) }),
)
const lifo = fc.constantFrom(undefined, undefined, undefined, true as const)
const sketch: fc.Arbitrary<JobSketch> = fc.record({
  queue,
  type,
  payload,
  version: fc.integer({ min: 1, max: 3 }),
  priority,
  when: fc.oneof(
    fc.constant(null),
    fc.record({ runInMs: fc.constantFrom(-1_000, 0, 1, 5_000, MINUTE, HOUR) }),
    fc.record({ delayMs: fc.constantFrom(0, 1, 5_000, MINUTE, DAY) }),
  ),
  limits,
  key,
  after: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(job, { minLength: 1, maxLength: 3 }) },
  ),
  onParentDead: fc.constantFrom('cancel', 'run'),
  tags,
  trace,
  lifo,
  replace: fc.constantFrom(null, null, { waitMs: 0, maxWaitMs: null }, { waitMs: 5_000, maxWaitMs: MINUTE }),
})
/** A job that is ready immediately and depends on nothing: stores may write batches of these in another way. */
const plainSketch: fc.Arbitrary<JobSketch> = fc.record({
  queue,
  type,
  payload,
  version: fc.constantFrom(1, 2),
  priority,
  when: fc.constant(null),
  limits,
  key: fc.constant(null),
  after: fc.constant([]),
  onParentDead: fc.constantFrom('cancel', 'run'),
  tags,
  trace,
  lifo,
})
const repeated: fc.Arbitrary<JobSketch> = fc.record({ again: back })
const few = { weight: 6, arbitrary: fc.constant(4) }
const many = { weight: 1, arbitrary: fc.constant(20) }
const enqueued = (of: fc.Arbitrary<JobSketch>, share: number) =>
  fc.oneof(few, many).chain((maxLength) =>
    fc.array(fc.oneof({ weight: share, arbitrary: of }, { weight: 1, arbitrary: repeated }), {
      minLength: 1,
      maxLength,
      size: 'max',
    }),
  )

const result = fc.constantFrom(null, 'null', '{"ok":true}', '"\\u0000"')
const ERRORS: readonly (StoredError | null)[] = [
  null,
  { name: 'Error', message: 'out of "ink" \\' },
  { name: 'TypeError', message: '', code: 'E_INK', stack: 'Error\n    at print' },
]
const storedError = fc.constantFrom(...ERRORS)
const settlement: fc.Arbitrary<SettlementSketch> = fc.record({
  lease,
  state: fc.constantFrom('succeeded', 'succeeded', 'retrying', 'dead', 'dead', 'scheduled', 'ready', 'cancelled'),
  delayMs: fc.constantFrom(0, 1, 1_000, MINUTE, HOUR),
  reason: fc.constantFrom(...DEAD_REASONS),
  givesBack: fc.boolean(),
  crashes: fc.nat(3),
  result,
  error: storedError,
  ranMs: fc.constantFrom(null, 0, 250, HOUR),
})
/** Most batches hold nothing else: stores may settle these in another way. */
const success: fc.Arbitrary<SettlementSketch> = settlement.map((sketch) => ({
  ...sketch,
  state: 'succeeded',
  error: null,
}))

const leases = fc.array(lease, { minLength: 0, maxLength: 4 })
const leaseMs = fc.constantFrom(1, SECOND, 30 * SECOND, DAY)
const limit = fc.constantFrom(1, 2, 5, 100)
const schedule = fc.constantFrom(...SCHEDULES)
const state = fc.constantFrom(...JOB_STATES)
const tag = fc.constantFrom(...TAGS)
const several = <T>(one: fc.Arbitrary<T>) => fc.array(one, { minLength: 1, maxLength: 3 })
const queuePattern = fc.oneof(queue, fc.constantFrom('*', 'im*', '*t.*', 'e*l*'))
const numbers = several(
  several(fc.record({ op: fc.constantFrom('=', '<', '<=', '>', '>='), value: fc.integer({ min: -1, max: 3 }) })),
) as fc.Arbitrary<NonNullable<JobFilter['attempt']>>
/** Only what is older: a job that is sent again long after its id was made is younger than its id shows. */
const older = several(
  fc.record({ op: fc.constantFrom('>', '>='), ageMs: fc.constantFrom(0, 1, SECOND, HOUR, DAY) }),
) as fc.Arbitrary<NonNullable<JobFilter['created']>>
const everyField: { [Field in keyof Required<JobFilter>]?: fc.Arbitrary<NonNullable<JobFilter[Field]>> } = {
  states: several(state),
  notStates: several(state),
  queues: several(queuePattern),
  notQueues: several(queuePattern),
  types: several(fc.constantFrom(...TYPES, 's*', '*')),
  notTypes: several(fc.constantFrom(...TYPES, 's*')),
  tags: several(several(tag)),
  notTags: several(tag),
  reasons: several(fc.constantFrom(...DEAD_REASONS)),
  workers: several(fc.constantFrom(...WORKERS, '*-a', 'w*')),
  keys: several(fc.constantFrom(...KEYS)),
  fingerprints: several(fc.constantFrom(...ERRORS.map(fingerprint))),
  errors: several(several(fc.constantFrom('INK', 'out of', 'type', '%', 'ink" \\'))),
  payload: several(
    fc.record({
      path: fc.constantFrom(['a'], ['0'], ['1'], ['2'], ['a', 'b']),
      anyOf: fc.option(several(fc.constantFrom<(string | number | null)[]>(1, '1', null, 'x'))),
    }),
  ),
  attempt: numbers,
  priority: numbers,
  created: older,
  finished: older,
}
const filter = fc.oneof(
  fc.constant({}),
  fc.record({ states: several(state) }),
  fc.record({ queues: several(queuePattern), states: several(state) }),
  // A few fields together, so that something is left to find.
  fc
    .subarray(Object.keys(everyField) as (keyof typeof everyField)[], { minLength: 1, maxLength: 3 })
    .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, everyField[name]!])))),
) as fc.Arbitrary<JobFilter>
const nextInMs = fc.constantFrom(-HOUR, -1, 0, 1, MINUTE, HOUR)
const scheduleSketch = fc.record({
  name: schedule,
  cron: fc.constantFrom('0 * * * *', '0 3 * * *'),
  zone: fc.constantFrom('UTC', 'Europe/Berlin'),
  queue,
  catchUp: fc.constantFrom('latest', 'skip', 'all'),
  overlap: fc.constantFrom('allow', 'skip'),
  limits,
  tags,
})

const VERBS: Readonly<
  Record<Exclude<Kind, FlowKind>, { readonly weight: number; readonly arbitrary: fc.Arbitrary<Operation> }>
> = {
  advance: verb(10, 'advance', {
    ms: fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(1, 500, SECOND, 5 * SECOND, 30 * SECOND, MINUTE) },
      { weight: 1, arbitrary: fc.constantFrom(HOUR, 12 * HOUR, DAY, 3 * DAY) },
    ),
  }),
  enqueue: verb(18, 'enqueue', {
    jobs: fc.oneof({ weight: 1, arbitrary: enqueued(plainSketch, 8) }, { weight: 2, arbitrary: enqueued(sketch, 12) }),
  }),
  claim: verb(18, 'claim', {
    queues: fc.array(
      fc
        .record({ queue, limit: fc.constantFrom(1, 2, 5, 50, 3, 0), ahead: fc.constantFrom(0, 0, 0, 1, 4, 50) })
        .map(({ ahead, ...asked }) => (ahead === 0 ? asked : { ...asked, ahead: Math.min(ahead, asked.limit) })),
      { minLength: 1, maxLength: 4 },
    ),
    types: fc.option(fc.subarray([...TYPES]), { freq: 3 }),
    batches: fc.oneof(
      fc.constant([]),
      fc.uniqueArray(fc.record({ type: fc.constantFrom(...TYPES), max: fc.constantFrom(1, 2, 3, 100) }), {
        selector: ({ type }) => type,
      }),
    ),
    worker: fc.constantFrom(...WORKERS),
    leaseMs,
  }),
  begin: verb(2, 'begin', { leases }),
  extend: verb(4, 'extend', { leases, leaseMs }),
  watch: verb(2, 'watch', { leases }),
  note: verb(4, 'note', {
    notes: fc.array(
      fc.record({
        lease,
        progress: fc.constantFrom(null, '50', '{"done":"a,b"}', 'null'),
        logs: fc.array(fc.constantFrom('one', 'two, "quoted"', ''), { maxLength: 3 }),
      }),
      { maxLength: 3 },
    ),
  }),
  settle: verb(18, 'settle', {
    jobs: fc.oneof(
      { weight: 3, arbitrary: fc.array(settlement, { maxLength: 6 }) },
      { weight: 1, arbitrary: fc.array(success, { minLength: 1, maxLength: 6 }) },
    ),
    onlyExpired: fc.constantFrom(false, false, true),
  }),
  promote: verb(6, 'promote', { limit }),
  expired: verb(3, 'expired', { limit }),
  due: verb(2, 'due', { limit: fc.constantFrom(1, 5) }),
  fire: verb(4, 'fire', {
    name: schedule,
    expectedOffMs: fc.constantFrom(0, 0, 0, 0, 0, 0, 1),
    tickOffsMs: fc.array(fc.constantFrom(0, -MINUTE, -HOUR, -DAY, -40 * DAY), { maxLength: 3 }),
    nextInMs: fc.option(nextInMs, { freq: 9 }),
  }),
  prune: verb(0, 'prune', { retentionMs: fc.constantFrom(0, HOUR, DAY, 3 * DAY) }),
  cancel: verb(5, 'cancel', { jobs: fc.array(job, { maxLength: 3 }) }),
  requeue: verb(4, 'requeue', { jobs: fc.array(jobOf('dead', 'dead', 'any'), { maxLength: 4 }) }),
  discard: verb(2, 'discard', { jobs: fc.array(jobOf('dead', 'dead', 'any'), { maxLength: 3 }) }),
  delete: verb(2, 'delete', { jobs: fc.array(job, { maxLength: 3 }) }),
  update: verb(
    5,
    'update',
    {
      job,
      priority,
      runInMs: fc.constantFrom(null, -SECOND, 0, 1, MINUTE, HOUR),
      payload,
    },
    ['job'],
  ),
  pause: verb(1, 'pause', { queue }),
  resume: verb(3, 'resume', { queue }),
  setQueue: verb(1, 'setQueue', {
    queue,
    settings: fc.constantFrom({ limits: {} }, { limits: { maxAttempts: 7 }, retentionMs: 2 * DAY }, {
      limits: { timeoutMs: null },
      retentionMs: HOUR,
    } satisfies QueueSettings),
  }),
  queues: verb(1, 'queues', {}),
  setSchedule: verb(4, 'setSchedule', { schedule: scheduleSketch, nextInMs }),
  removeSchedule: verb(1, 'removeSchedule', { name: schedule }),
  pauseSchedule: verb(1, 'pauseSchedule', { name: schedule }),
  resumeSchedule: verb(3, 'resumeSchedule', { name: schedule, nextInMs }),
  schedules: verb(1, 'schedules', {}),
  get: verb(6, 'get', { job }),
  list: verb(4, 'list', { filter, limit: fc.constantFrom(1, 3, 10, 200), before: fc.option(job) }),
  count: verb(2, 'count', { filter, max: fc.constantFrom(1_000, 100_000) }),
  stats: verb(3, 'stats', { queue: fc.option(queue) }),
  overview: verb(1, 'overview', {}),
  deadGroups: verb(2, 'deadGroups', { queue: fc.option(queue), limit: fc.constantFrom(1, 100) }),
  standing: verb(2, 'standing', { job }),
  audit: verb(1, 'audit', {}),
  tally: verb(1, 'tally', {
    tallies: fc.array(fc.record({ queue, count: fc.nat(9) }), { maxLength: 3 }),
  }),
  sample: verb(1, 'sample', {}),
  series: verb(1, 'series', {
    queue: fc.option(queue),
    backMs: fc.constantFrom(0, MINUTE, HOUR),
    stepMs: fc.constantFrom(10 * SECOND, MINUTE),
  }),
  startBulk: verb(2, 'startBulk', {
    action: fc.constantFrom('cancel', 'requeue', 'requeue', 'discard', 'delete'),
    filter,
    perSecond: fc.constantFrom(null, null, 1, 7),
    limit: fc.constantFrom(1, 4, 1_000),
  }),
  stepBulk: verb(4, 'stepBulk', {}),
  cancelBulk: verb(1, 'cancelBulk', { back: fc.nat(3) }),
  bulks: verb(1, 'bulks', {}),
  endings: verb(3, 'endings', { jobs: fc.array(job, { maxLength: 6 }) }),
  now: verb(1, 'now', {}),
  beat: verb(2, 'beat', {
    worker: fc.record({
      id: fc.constantFrom(...WORKERS),
      host: fc.constant('host'),
      pid: fc.nat(9),
      queues: fc.subarray([...QUEUES]),
      concurrency: fc.constant(8),
      running: fc.nat(8),
      draining: fc.boolean(),
      version: fc.constant('1.0.0'),
      types: fc.option(fc.subarray([...TYPES])),
      jobs: fc.constant([]),
      children: fc.option(fc.record({ running: fc.nat(4), restarts: fc.nat(9) })),
    }),
  }),
  leave: verb(1, 'leave', { worker: fc.constantFrom(...WORKERS) }),
  workers: verb(1, 'workers', {}),
}

/** Every kind of operation there is beside those of flow control. */
export const KINDS: readonly Kind[] = Object.keys(VERBS) as Kind[]

function verb<K extends Kind, T extends object>(
  weight: number,
  kind: K,
  fields: { [Key in keyof T]: fc.Arbitrary<T[Key]> },
  requiredKeys: (keyof T)[] = Object.keys(fields) as (keyof T)[],
): { weight: number; arbitrary: fc.Arbitrary<Operation> } {
  const record = fc.record(fields, { requiredKeys }) as fc.Arbitrary<object>
  return { weight, arbitrary: record.map((given) => ({ kind, ...given }) as unknown as Operation) }
}

/** Days go by and old jobs are pruned: stores that keep jobs by the day make and drop tables, which takes its time. */
const LONG_LIVED = [
  VERBS.note,
  VERBS.get,
  verb(5, 'prune', { retentionMs: fc.constantFrom(0, HOUR, DAY, 3 * DAY) }),
  verb(10, 'advance', { ms: fc.constantFrom<(number | 'midnight')[]>(12 * HOUR, DAY, 2 * DAY, 'midnight') }),
]

type Verb = (typeof VERBS)['claim']

const sequences = (verbs: readonly Verb[], lengthMin: number, lengthMax: number) =>
  new AtLeast(fc.noBias(fc.array(fc.oneof(...verbs), { maxLength: lengthMax, size: 'max' })), lengthMin)

/** Sequences of `lengthMin` to `lengthMax` operations; a failing one shrinks as far as it will. */
export function operations(lengthMin: number, lengthMax: number): fc.Arbitrary<Operation[]> {
  return fc.oneof(
    { weight: 6, arbitrary: sequences(Object.values(VERBS), lengthMin, lengthMax) },
    { weight: 1, arbitrary: longLivedOperations(lengthMin, lengthMax) },
  )
}

/** Those of the same in which days go by: a search of few runs makes some of them for certain. */
export function longLivedOperations(lengthMin: number, lengthMax: number): fc.Arbitrary<Operation[]> {
  return sequences([...Object.values(VERBS), ...LONG_LIVED], lengthMin, lengthMax)
}

/** The same with flow control among them: most jobs have a group or limits. `canReplace` for a store that knows debounce and replace. */
export function flowOperations(
  lengthMin: number,
  lengthMax: number,
  { canReplace }: { readonly canReplace: boolean },
): fc.Arbitrary<Operation[]> {
  const { enqueue: _enqueue, settle: _settle, setSchedule: _setSchedule, prune: _prune, ...rest } = VERBS
  const verbs: Verb[] = [
    ...Object.values(rest),
    ...FLOW_KINDS.map((kind) => {
      const { weight, fields } = FLOW_FIELDS[kind](queue)
      return verb(weight, kind, fields)
    }),
    verb(26, 'enqueue', { jobs: flowJobs(canReplace) }),
    verb(22, 'settle', {
      jobs: fc.array(fc.oneof(flowSettlement, success), { minLength: 1, maxLength: 4 }),
      onlyExpired: fc.constantFrom(false, false, true),
    }),
    verb(2, 'setSchedule', { schedule: fc.tuple(scheduleSketch, jobFlow).map(withFlow), nextInMs }),
    // What rates and breakers wait for.
    verb(8, 'advance', { ms: fc.constantFrom(1, 250, 500, SECOND, 2 * SECOND, 5 * SECOND) }),
    verb(4, 'promote', { limit: fc.constant(100) }),
  ]
  return sequences(verbs, lengthMin, lengthMax)
}

function withFlow<T>([sketch, flow]: readonly [T, JobFlow]): T & { readonly flow: JobFlow } {
  return { ...sketch, flow }
}

function flowJobs(canReplace: boolean): fc.Arbitrary<JobSketch[]> {
  const grouped = fc.tuple(plainSketch, jobFlow).map(withFlow)
  const kept = fc.tuple(sketch, jobFlow).map(withFlow)
  const replacing = fc.tuple(grouped, replaceRule, fc.constantFrom(...KEYS)).map(([job, replace, key]) => {
    // As the client asks for it: a job that waits for more payloads is due when it has waited.
    const when =
      replace.waitMs === 0 ? null : { delayMs: Math.min(replace.waitMs, replace.maxWaitMs ?? replace.waitMs) }
    return { ...job, when, key: { key, ttlMs: null }, replace }
  })
  const one: fc.Arbitrary<JobSketch> = fc.oneof(
    { weight: 6, arbitrary: grouped },
    { weight: 3, arbitrary: kept },
    { weight: 2, arbitrary: plainSketch },
    { weight: 1, arbitrary: repeated },
    ...(canReplace ? [{ weight: 3, arbitrary: replacing }] : []),
  )
  return fc.array(one, { minLength: 1, maxLength: 3 })
}

const flowSettlement: fc.Arbitrary<SettlementSketch> = fc
  .tuple(settlement, fc.option(holdOff, { freq: 2, nil: undefined }), fc.option(spent, { freq: 2, nil: undefined }))
  .map(([sketch, hold, cost]) => ({
    ...sketch,
    ...(hold === undefined ? {} : { holdOff: hold }),
    ...(cost === undefined ? {} : { spent: cost }),
  }))

/** Lists that are long when they are made. A minimum in fc.array or a filter would keep them long when they shrink, too. */
class AtLeast<T> extends fc.Arbitrary<T[]> {
  readonly #lists: fc.Arbitrary<T[]>
  readonly #lengthMin: number

  constructor(lists: fc.Arbitrary<T[]>, lengthMin: number) {
    super()
    this.#lists = lists
    this.#lengthMin = lengthMin
  }

  override generate(random: fc.Random, bias: number | undefined): fc.Value<T[]> {
    for (;;) {
      const list = this.#lists.generate(random, bias)
      if (list.value.length >= this.#lengthMin) return list
    }
  }

  override canShrinkWithoutContext(list: unknown): list is T[] {
    return this.#lists.canShrinkWithoutContext(list)
  }

  override shrink(list: T[], context: unknown): fc.Stream<fc.Value<T[]>> {
    return this.#lists.shrink(list, context)
  }
}
