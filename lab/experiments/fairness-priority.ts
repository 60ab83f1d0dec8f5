// Aging: a job of low priority behind a stream of higher ones that never ends.

import { type ExperimentContext, expectThat, type Verdict } from './experiment.js'
import { type FairnessConfig, type Part, partOf, withHoldfast } from './fairness-parts.js'
import { withFleet } from './fleet.js'
import { withGround } from './place.js'
import { pause } from './proof.js'

const QUEUE = 'aged'
const HIGH = 10
/** High ones that wait all the time: more than a second's work, so that they do not run out between two looks. */
const BACKLOG = 60
const JOB_MS: readonly [number, number] = [15, 25]

const WAITING = 'SELECT count(*)::integer AS count FROM holdfast.ready WHERE queue = $1 AND priority > 0'
const ENDED = 'SELECT EXISTS (SELECT FROM holdfast.finished WHERE id = $1) AS ended'

/** Once with aging and once without. */
export async function measureAging(
  context: ExperimentContext<FairnessConfig>,
): Promise<{ readonly parts: readonly Part[]; readonly verdicts: readonly Verdict[] }> {
  const { agingMs, agingSeconds, deadlineSeconds } = context.config
  const strict = await measure(context, null, agingSeconds)
  const aged = await measure(context, agingMs, deadlineSeconds)
  const gainMs = HIGH * agingMs
  const show = (ms: number | null) => (ms === null ? 'not started' : `after ${(ms / 1_000).toFixed(1)} s`)
  return {
    parts: [
      partOf('priority 0 behind 10, no aging', 1, `not within ${agingSeconds} s`, show(strict)),
      partOf(`priority 0 behind 10, aging ${agingMs} ms`, 1, `after ${gainMs / 1_000} s or more`, show(aged)),
    ],
    verdicts: [
      expectThat(
        'without aging a low priority is starved',
        `not started within ${agingSeconds} s`,
        show(strict),
        strict === null,
      ),
      expectThat(
        'with aging it starts when it has gained the difference',
        `after ${gainMs / 1_000} s or more`,
        show(aged),
        aged !== null && aged >= gainMs,
      ),
    ],
  }
}

/** How long the job waited; null when it did not start. */
function measure(
  { place }: ExperimentContext<FairnessConfig>,
  agingMs: number | null,
  seconds: number,
): Promise<number | null> {
  return withGround(
    place,
    async () => {},
    ({ url, client }) =>
      withFleet({ url, processes: 1, slots: 1, queues: [QUEUE], plainMs: JOB_MS }, (fleet) =>
        withHoldfast(url, async (holdfast) => {
          // A queue with flow control in both runs, so that only the aging differs.
          await holdfast.setQueue(QUEUE, { concurrency: 1_000, ...(agingMs === null ? {} : { aging: agingMs }) })
          const fill = async () => {
            const { rows } = await client.query<{ count: number }>(WAITING, [QUEUE])
            const missing = BACKLOG - rows[0]!.count
            const payloads = Array.from({ length: Math.max(0, missing) }, () => ({}))
            if (missing > 0) await holdfast.enqueueMany('noop', payloads, { queue: QUEUE, priority: HIGH })
          }
          await fill()
          const { id } = await holdfast.enqueue('noop', {}, { queue: QUEUE, priority: 0 })
          const sentMs = performance.now()
          fleet.start()
          while (performance.now() - sentMs < seconds * 1_000) {
            await fill()
            const { rows } = await client.query<{ ended: boolean }>(ENDED, [id])
            if (rows[0]!.ended) return performance.now() - sentMs
            await pause(10)
          }
          return null
        }),
      ),
  )
}
