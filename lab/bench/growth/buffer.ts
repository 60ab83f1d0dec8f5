// Is a producer's memory bounded? Concurrent calls beyond its buffer get the documented error; the others are kept.

import { withClient } from '../database.js'
import { residentBytes } from '../resources.js'
import { column, type GrowthContext, type GrowthMeasure, type GrowthRow, megabytes, pointsOf } from './measure.js'
import { withProducer } from './producer.js'
import type { Burst, BurstRequest } from './producer-child.js'
import { prepareDatabase } from './seed.js'

const SMALL_BYTES = 50
const LARGE_BYTES = 100_000
const DEADLINE_MS = 120_000

export const buffer: GrowthMeasure = {
  about: "what happens to calls beyond a producer's buffer",
  async run(context) {
    const rows: GrowthRow[] = []
    const messages: string[] = []
    const sizes = context.isQuick ? [10_000, 25_000] : [5_000, 10_000, 20_000, 30_000, 40_000]
    const bursts = [
      ...sizes.map((calls) => ({ calls, payloadBytes: SMALL_BYTES })),
      { calls: 1_000, payloadBytes: LARGE_BYTES },
    ]
    for (const request of bursts) {
      const { row, message } = await measureBurst(context, request)
      rows.push(row)
      if (message !== null) messages.push(message)
    }
    const small = rows.filter(({ payloadBytes }) => payloadBytes === SMALL_BYTES)
    return {
      columns: [
        column('concurrent calls', 'calls'),
        column('payload B', 'payloadBytes'),
        column('accepted', 'accepted'),
        column('in the store', 'stored'),
        column('refused', 'refused'),
        column('code', 'code'),
        column('retryable', 'retryable'),
        column('seconds', 'seconds', 2),
        column('most memory MB', 'mostMb', 1),
      ],
      rows,
      notes: [
        'The buffer takes 20,000 calls (enqueueBufferMax) and 64 MiB of payloads; one process made all calls before any was answered.',
        ...messages.slice(-1).map((message) => `A refusal says: ${message}`),
      ],
      figures: {
        buffer: {
          title: "Calls beyond a producer's buffer",
          subtitle: 'one process makes all calls before any is answered, with the default buffer of 20,000',
          x: { label: 'concurrent enqueue calls', scale: 'linear' },
          panels: [
            {
              label: 'calls',
              series: [
                { name: 'accepted', points: pointsOf(small, 'calls', 'accepted') },
                { name: 'refused', points: pointsOf(small, 'calls', 'refused') },
              ],
            },
            {
              label: 'most resident memory, MB',
              series: [{ name: 'memory', points: pointsOf(small, 'calls', 'mostMb') }],
            },
          ],
        },
      },
    }
  },
}

async function measureBurst(
  context: GrowthContext,
  request: Omit<BurstRequest, 'kind'>,
): Promise<{ readonly row: GrowthRow; readonly message: string | null }> {
  const url = await prepareDatabase(context, async () => {})
  const { answer, most } = await withProducer(url, DEADLINE_MS, async (child) => {
    const asked: BurstRequest = { kind: 'burst', ...request }
    return { answer: await child.ask<Burst>(asked), most: residentBytes(child.pid, 'most') }
  })
  const stored = await withClient(url, async (client) => {
    const { rows } = await client.query('SELECT count(*)::integer AS count FROM holdfast.jobs')
    return rows[0].count as number
  })
  const codes = Object.keys(answer.refused)
  const row: GrowthRow = {
    ...request,
    accepted: answer.accepted,
    stored,
    refused: request.calls - answer.accepted,
    code: codes.length === 0 ? null : codes.join(', '),
    retryable: codes.length === 0 ? null : String(answer.isRetryable),
    seconds: answer.seconds,
    mostMb: megabytes(most),
  }
  return { row, message: answer.message }
}
