// Bugs to plant into the compiled code, one at a time: what a hurried change could do to it. A simulator that does not find them
// proves nothing by finding none in the code as it is.

import type { Invariant } from '../history/verdict.js'
import type { Aim } from './plan.js'
import { FLOW_BUGS } from './planted-flow-bugs.js'

/** One bug. Each text it looks for is there exactly once. */
export interface PlantedBug {
  readonly name: string
  /** Compiled file below src/. */
  readonly file: string
  readonly edits: readonly { readonly find: string; readonly replace: string }[]
  /** The invariants that may break first. */
  readonly expected: readonly Invariant[]
  /** What the runs are about in which it is hunted. Absent: whatever the seeds draw. */
  readonly aim?: Aim
}

function bug(
  name: string,
  file: string,
  expected: readonly Invariant[],
  ...edits: readonly (readonly [find: string, replace: string])[]
): PlantedBug {
  return { name, file, expected, edits: edits.map(([find, replace]) => ({ find, replace })) }
}

const MEMORY = 'stores/memory'

/** Every planted bug. */
export const PLANTED_BUGS: readonly PlantedBug[] = [
  // The lease and its fence.
  bug(
    'settle does not look at the fence',
    `${MEMORY}/settle.js`,
    ['I4'],
    [
      'const job = heldJob(memory, settled);',
      'const job = memory.jobs.get(settled.id)?.lease ? memory.jobs.get(settled.id) : null;',
    ],
  ),
  bug(
    'extend does not look at the fence',
    `${MEMORY}/extend.js`,
    ['I4'],
    [
      'const job = heldJob(memory, lease);',
      'const job = memory.jobs.get(lease.id)?.lease ? memory.jobs.get(lease.id) : null;',
    ],
  ),
  bug(
    'the fence does not grow',
    `${MEMORY}/claim.js`,
    ['I4'],
    ['job.fence = Math.max(job.fence + 1, nowMs);', 'job.fence = job.fence || nowMs;'],
  ),
  bug(
    'a claimed job stays ready',
    `${MEMORY}/claim.js`,
    // It is claimed again while it runs, or after it has ended.
    ['I3', 'I13'],
    ['    take(memory, job);\n    job.state', '    job.state'],
  ),
  bug(
    "the lease runs by the worker's clock",
    'worker/fetcher.js',
    ['I3', 'I12', 'I14'],
    [
      'leaseMs: settings.leaseMs }',
      'leaseMs: Math.max(1, settings.leaseMs + Math.round(this.#deps.ports.clock.now() - storeTime.nowMs())) }',
    ],
  ),
  bug('an extension lasts twice as long', `${MEMORY}/extend.js`, ['I3'], ['nowMs + leaseMs', 'nowMs + 2 * leaseMs']),
  bug(
    'the heartbeat comes once a lease',
    'worker/options.js',
    ['I12', 'I14'],
    ['return Math.floor(leaseMs / 3);', 'return leaseMs;'],
  ),
  bug(
    'the first place of the lease table is not extended',
    'worker/lease-table.js',
    ['I12'],
    ['for (let at = HEAD_BYTES; at < end', 'for (let at = HEAD_BYTES + SLOT_BYTES; at < end'],
  ),
  bug('a lost lease is not reported', 'worker/worker.js', ['I15'], ['this.#slots.find(lost)', '[]']),
  // Rescue.
  bug('nobody rescues', 'upkeep/upkeep.js', ['I14'], ['() => rescue.step()', 'async () => 1_000']),
  bug('rescue takes leases that were extended meanwhile', 'upkeep/rescue.js', ['I3'], ['{ onlyExpired: true }', '{}']),
  bug('crashes are not counted', 'core/decide.js', ['I5'], ['crashes: crashes + 1', 'crashes']),
  // Attempts.
  bug('the attempt is not counted at the claim', `${MEMORY}/claim.js`, ['I5'], ['job.attempt += 1;', '']),
  bug(
    'a release uses up an attempt',
    'core/decide.js',
    ['I5'],
    ['const attempt = job.attempt - 1;', 'const attempt = job.attempt;'],
  ),
  bug(
    'a snooze uses up an attempt',
    'core/decide.js',
    ['I5'],
    [
      "{ state: 'scheduled', attempt: attempt - 1, crashes, delayMs: outcome.delayMs }",
      "{ state: 'scheduled', attempt, crashes, delayMs: outcome.delayMs }",
    ],
  ),
  bug('retries go on beyond the limit', 'core/decide.js', ['I5'], ['if (attempt >= limits.maxAttempts)', 'if (false)']),
  bug(
    'a retry does not wait',
    'core/retry.js',
    ['I8'],
    ['return policy.jitter ? Math.floor(random() * full) : Math.floor(full);', 'return 0;'],
  ),
  bug('requeue keeps the old attempts', `${MEMORY}/requeue.js`, ['I5'], ['job.attempt = 0;', '']),
  // Settling.
  bug(
    'a batch leaves out its last settlement',
    'worker/settler.js',
    ['I12'],
    ['batch.map((held) => held.settled)', 'batch.slice(0, Math.max(1, batch.length - 1)).map((held) => held.settled)'],
  ),
  bug(
    'what ends while a worker stops is not settled',
    'worker/worker.js',
    ['I12', 'I14'],
    ['this.#settler.add(held);', "if (this.#state !== 'draining') this.#settler.add(held);"],
  ),
  bug(
    'a stopping worker keeps what waits',
    'worker/slots.js',
    ['I12', 'I14'],
    [
      'for (const held of this.inHand().slice(this.#running.length))\n            this.#release(held);',
      'while (this.#prefetch.next() !== null);',
    ],
  ),
  bug('complete() settles outside of the transaction', 'worker/context.js', ['I6'], ['[settled], { tx }', '[settled]']),
  bug(
    'a lease that was lost while its own transaction was open is not reported',
    'worker/interrupt.js',
    ['I15'],
    ['held.isCompleting = false;\n    loseHeld(held, scope, deadlines);', ''],
  ),
  // What comes late, and comes.
  bug(
    'a worker that heard of nothing hardly looks',
    'worker/fetcher.js',
    ['I17'],
    ['this.#poll.waitMs(this.#nowMs()) * jitter', 'this.#poll.waitMs(this.#nowMs()) * jitter * 64'],
  ),
  bug(
    'promote comes by once a minute',
    'upkeep/promote.js',
    ['I17'],
    ['return nextDueMs === null || nextDueMs > usualMs ? usualMs : this.waitFor(nextDueMs);', 'return 60_000;'],
  ),
  bug('timeouts are not kept', 'worker/deadlines.js', ['I14'], ['if (timeoutMs !== null)', 'if (false)']),
  bug(
    'a claim that failed is the last one',
    'worker/fetcher.js',
    ['I14'],
    ["this.#rest('failed', waitMs, 'probe');", "this.#state = 'failed';"],
  ),
  // Enqueueing.
  bug(
    'an enqueue is sent again under a new id',
    'client/group-commit.js',
    ['I2'],
    [
      'const jobs = open.flatMap((call) => call.jobs);',
      'const jobs = open.flatMap((call) => call.isSent ? call.jobs.map((job) => ({ ...job, id: job.id.slice(0, -3) + (100 + (Math.floor(startedMs) % 900)) })) : call.jobs);',
    ],
  ),
  bug(
    'an enqueue without an answer is taken for written',
    'client/group-commit.js',
    ['I1'],
    [
      'this.#lastError = error;\n',
      "for (const call of open) this.end(call, call.jobs.map(({ id }) => ({ id, created: true, state: 'ready' })));\n",
    ],
  ),
  bug(
    'an enqueue that was sent is said not to be written',
    'client/group-commit.js',
    ['I2'],
    ["const written = call.isSent ? 'unknown' : 'no';", "const written = 'no';"],
  ),
  // Keys, parents, cancels.
  bug(
    'a key is never freed',
    `${MEMORY}/keys.js`,
    ['I16'],
    ['else if (held.jobId === id && held.expiresAtMs === null)', 'else if (held.next !== null && held.jobId === id)'],
  ),
  bug(
    'a key is freed by a retry',
    `${MEMORY}/settle.js`,
    ['I16'],
    ['    take(memory, job);', '    take(memory, job); memory.keys.clear();'],
  ),
  bug(
    'a child goes on though its parent is dead',
    `${MEMORY}/moves.js`,
    ['I16'],
    ["if (waitsOn === null && hasBadEnd && facts.onParentDead === 'cancel')", 'if (false)'],
  ),
  bug('children are forgotten', `${MEMORY}/settle.js`, ['I14'], ['    unblock(memory, finishedIds, nowMs);', '']),
  bug(
    'a cancel is forgotten when the attempt fails',
    `${MEMORY}/settle.js`,
    ['I16'],
    ['if (lease.cancelRequested && ', 'if (false && '],
  ),
  bug(
    'a cancel takes a running job away',
    `${MEMORY}/cancel.js`,
    ['I3'],
    ['if (job.lease !== null) {', 'if (false) {'],
  ),
  // Time and order.
  bug(
    'jobs become ready before their time',
    `${MEMORY}/promote.js`,
    ['I8'],
    ['job.runAtMs <= nowMs', 'job.runAtMs <= nowMs + 500'],
  ),
  {
    ...bug(
      'a suspect on its last chance counts as gone before its settlement is confirmed',
      'worker/worker.js',
      ['I5'],
      ['if (held.settled === null)\n            this.#slots.confirmed(held);', 'this.#slots.confirmed(held);'],
    ),
    aim: 'suspects',
  },
  bug('nobody promotes', 'upkeep/upkeep.js', ['I14'], ['() => promoter.step()', '() => Promise.resolve(1_000)']),
  bug(
    'claims do not look at the priority',
    `${MEMORY}/held.js`,
    ['I9'],
    ['other.facts.priority - one.facts.priority || one.lane', 'one.lane'],
  ),
  bug(
    'a timed job stands at the end',
    `${MEMORY}/promote.js`,
    ['I9'],
    ["job.state === 'scheduled' ? FRONT : NORMAL", 'NORMAL'],
  ),
  bug(
    'a retry passes the backlog',
    `${MEMORY}/promote.js`,
    ['I9'],
    ["job.state === 'scheduled' ? FRONT : NORMAL", 'FRONT'],
  ),
  bug(
    'a paused queue gives jobs',
    `${MEMORY}/claim.js`,
    ['I11'],
    ['if (memory.queues.get(queue)?.paused)', 'if (false)'],
  ),
  // Schedules.
  bug(
    'a tick is not unique',
    `${MEMORY}/schedules.js`,
    ['I7'],
    [' || kept.nextAtMs !== request.expectedNextAtMs', ''],
    ['if (recorded.has(tickMs))', 'if (false)'],
  ),
  bug(
    'a tick whose call failed is skipped',
    'upkeep/fire.js',
    ['I7'],
    [
      'const firing = { ...ticksDue(times, schedule, schedule.nextAtMs, nowMs), jitterMs: times.jitterMs };',
      'this.seen ??= new Map(); const firing = { ...ticksDue(times, schedule, Math.max(schedule.nextAtMs, this.seen.get(schedule.name) ?? 0), nowMs), jitterMs: times.jitterMs }; this.seen.set(schedule.name, firing.nextAtMs);',
    ],
  ),
  bug(
    'a tick is skipped though nothing overlaps',
    `${MEMORY}/schedules.js`,
    ['I7'],
    [
      "kept.schedule.overlap === 'skip' && isUnfinished(memory, kept.lastJobId)",
      "kept.schedule.overlap === 'skip' && kept.lastJobId !== null",
    ],
  ),
  ...FLOW_BUGS,
]
