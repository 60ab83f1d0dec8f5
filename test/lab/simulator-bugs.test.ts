// The simulator at work, as `holdfast simulate` runs it: many seeds of the code as it is, and each planted bug.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { CampaignSummary } from '../../lab/simulator/campaign.js'
import type * as HuntModule from '../../lab/simulator/hunt.js'
import type { Hunted } from '../../lab/simulator/hunt.js'
import { PLANTED_BUGS } from '../../lab/simulator/planted-bugs.js'

const DIST = join(import.meta.dirname, '..', '..', 'dist')
const SCHEDULES = 10_000
const TEST_MS = 1_800_000

const exec = promisify(execFile)

async function holdfast<Answer>(...options: string[]): Promise<Answer> {
  const line = [join(DIST, 'src/cli/main.js'), 'simulate', '--json', ...options]
  const { stdout } = await exec(process.execPath, line, { maxBuffer: 2 ** 26 }).catch((error) => error)
  return JSON.parse(stdout) as Answer
}

describe('the simulator', () => {
  test(
    `breaks nothing in ${SCHEDULES} schedules`,
    async () => {
      const summary = await holdfast<CampaignSummary>('--count', String(SCHEDULES))

      expect(summary.failures).toEqual([])
      expect(summary.totals.schedules).toBe(SCHEDULES)
    },
    TEST_MS,
  )

  test.each(PLANTED_BUGS)('can plant "$name" in one place of the compiled code', async (bug) => {
    const { plant, compiledText } = (await import(
      pathToFileURL(join(DIST, 'lab/simulator/hunt.js')).href
    )) as typeof HuntModule

    expect(plant(bug, compiledText(bug))).not.toBe(compiledText(bug))
  })

  test(
    'finds every planted bug by the invariant it breaks',
    async () => {
      const { hunted } = await holdfast<{ hunted: Hunted[] }>('--planted')

      const missed = hunted.filter(({ invariant, expected }) => invariant === null || !expected.includes(invariant))
      expect(missed).toEqual([])
      expect(hunted.length).toBeGreaterThanOrEqual(25)
    },
    TEST_MS,
  )
})
