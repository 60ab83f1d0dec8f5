// Bugs of flow control to plant into the compiled memory store and worker. Those of the PostgreSQL store are in test/stores/flow-bugs.ts.

import type { Invariant } from '../history/verdict.js'
import type { PlantedBug } from './planted-bugs.js'

const CLAIM = 'stores/memory/flow-claim.js'
const LIMITS = 'stores/memory/limits.js'
const MEMORY = 'stores/memory'

function bug(
  name: string,
  file: string,
  expected: readonly Invariant[],
  [find, replace]: readonly [find: string, replace: string],
): PlantedBug {
  return { name, file, expected, edits: [{ find, replace }], aim: 'flow' }
}

/** What is forgotten is held beside an idle worker, or never ends. */
const FORGOTTEN: readonly Invariant[] = ['I14', 'I17', 'I22']

export const FLOW_BUGS: readonly PlantedBug[] = [
  // How many run.
  bug('what runs is not looked up', CLAIM, ['I11'], ['count(running, job, queue);', ';']),
  bug(
    'the concurrency of a group is not looked at',
    CLAIM,
    ['I11'],
    ['(look.running.get(groupKey(group)) ?? 0) >= concurrency)', 'false)'],
  ),
  bug('a paused group gives jobs', CLAIM, ['I11'], ['if (kept?.paused)', 'if (false)']),
  bug(
    'a limit that is set again keeps its bounds',
    LIMITS,
    ['I11', ...FORGOTTEN],
    ['settings: copyOf(settings), origin,', 'settings: known?.settings ?? copyOf(settings), origin,'],
  ),
  // Rates and waits.
  bug(
    'a start takes no token of a limit',
    CLAIM,
    ['I11'],
    ['limit.emptyAtMs = draw(taken, limit.emptyAtMs, priceOf(taken, costOf(job)), nowMs);', ';'],
  ),
  bug(
    'a start takes no token of its group',
    CLAIM,
    ['I11'],
    ['entry.emptyAtMs = draw(rate, entry.emptyAtMs, priceOf(rate, costOf(job)), nowMs);', ';'],
  ),
  bug(
    'a bucket that was left alone holds more than its burst',
    'core/flow/rate.js',
    ['I11'],
    [
      'price > 0 ? Math.max(current, nowMs - fillMs(rate)) : current',
      'price > 0 ? Math.max(current, nowMs - 3 * fillMs(rate)) : current',
    ],
  ),
  bug(
    'a limit that was told to wait lets jobs start',
    LIMITS,
    ['I11'],
    ['limit.notBeforeMs = Math.max(limit.notBeforeMs, untilMs);', ';'],
  ),
  bug(
    'a group that was told to wait lets jobs start',
    LIMITS,
    ['I11'],
    ['entry.notBeforeMs = Math.max(entry.notBeforeMs, untilMs);', ';'],
  ),
  bug('a group that naps is never woken', CLAIM, FORGOTTEN, [
    'if (atMs > nowMs && atMs <= nowMs + NAP_MAX_MS)',
    'if (true)',
  ]),
  // Order.
  bug(
    'an ordered group does not look at its other tracks',
    CLAIM,
    ['I10'],
    ['look.started.has(group) || isPreceded(look, waiting[0], limits)', 'look.started.has(group)'],
  ),
  bug(
    'a job that retries frees its ordered group',
    CLAIM,
    ['I10', 'I11'],
    ["if (!ordered || onRetry === 'pass')", 'if (true)'],
  ),
  bug(
    'a job that comes back goes to the end of its ordered group',
    `${MEMORY}/held.js`,
    ['I10'],
    ['return one.order - other.order;', 'return one.position - other.position;'],
  ),
  bug('the death of a job stops no group', `${MEMORY}/settle.js`, ['I11'], ['stopGroup(memory, job);', ';']),
  // Breakers.
  bug('an open breaker lets jobs start', CLAIM, ['I11', 'I20'], ['isShut(limit.breaker, nowMs)', 'false']),
  bug(
    'a breaker lets any number of probes start',
    LIMITS,
    ['I11', 'I20'],
    ['settings.breaker === null ? null : probesOf(settings.breaker, breaker)', 'null'],
  ),
  bug(
    'a breaker never opens',
    'core/flow/breaker.js',
    ['I11'],
    ['const isBad = total', 'const isBad = false && total'],
  ),
  // What makes a claim look.
  bug('a settlement gives no group its turn', `${MEMORY}/settle.js`, FORGOTTEN, ['freeSlots(memory, job);', ';']),
  bug('resumeGroup gives the group no turn', `${MEMORY}/groups.js`, FORGOTTEN, ['offer(memory, queue, group);', ';']),
]
