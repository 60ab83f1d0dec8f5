// What the experiments conclude with: the statements that find a broken promise, the sums over times, the name of the bound.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { nameBound } from '../../lab/experiments/bound.js'
import type { Evidence } from '../../lab/experiments/evidence.js'
import { Histogram } from '../../lab/experiments/histogram.js'
import { renderRun, replaceSection } from '../../lab/experiments/page.js'
import { openPlace, withGround } from '../../lab/experiments/place.js'
import { countDeliveries, type ProofName, prove } from '../../lab/experiments/proof.js'
import { loadRuns, RECORD_TABLES } from '../../lab/experiments/records.js'
import { testServerUrl } from '../support/postgres.js'

const ID = '01900000-0000-7000-8000-000000000001'

describe('the proofs', () => {
  let client: pg.Client
  let finish: () => void
  let ended: Promise<unknown>

  beforeAll(async () => {
    const place = await openPlace(testServerUrl())
    await new Promise<void>((resolve, reject) => {
      ended = withGround(
        place,
        async (sql) => {
          await sql.query(RECORD_TABLES)
        },
        async (ground) => {
          client = ground.client
          resolve()
          await new Promise<void>((over) => {
            finish = over
          })
        },
      )
      ended.catch(reject)
    })
  })
  afterAll(async () => {
    finish()
    await ended
  })

  /** The rows a proof finds after `sql`, which is rolled back. */
  async function found(name: ProofName, sql: string): Promise<number> {
    await client.query('BEGIN')
    try {
      await client.query(sql)
      return (await prove(client, name)).rows.length
    } finally {
      await client.query('ROLLBACK')
    }
  }

  const accepted = `INSERT INTO experiment.accepted VALUES (1, '${ID}')`
  const finished = `INSERT INTO holdfast.finished (id, finished_at, attempt, crashes, ending) VALUES ('${ID}', now(), 1, 0, 'succeeded')`
  const dead = `INSERT INTO holdfast.dead (id, died_at, fence, priority, attempt, crashes, reason, queue, type)
                VALUES ('${ID}', now(), 1, 0, 3, 0, 'attempts', 'gen', 'poison')`
  const run = (mark: string, fence: number, atMs: number, word = 'succeeded') =>
    `INSERT INTO experiment.runs VALUES ('${mark}', '${ID}', ${fence}, 1, '${word}', ${atMs}, 1)`

  test('find an accepted job that is missing, and none that succeeded or died', async () => {
    expect(await found('lost', accepted)).toBe(1)
    expect(await found('lost', `${accepted};${finished}`)).toBe(0)
    expect(await found('lost', `${accepted};${dead}`)).toBe(0)
  })

  test('find a number that was accepted twice', async () => {
    expect(await found('acceptedTwice', accepted)).toBe(0)
    expect(await found('acceptedTwice', `${accepted};${accepted}`)).toBe(1)
  })

  test('find an effect that was applied twice', async () => {
    const effect = `INSERT INTO experiment.effects VALUES (1, 'in transaction', '${ID}')`

    expect(await found('doubled', effect)).toBe(0)
    expect(await found('doubled', `${effect};${effect}`)).toBe(1)
  })

  test('find a job that succeeded without its effect', async () => {
    const job = (effect: string) =>
      `INSERT INTO holdfast.jobs (id, created_at, position, priority, version, queue, type, payload)
       VALUES ('${ID}', now(), 1, 0, 1, 'gen', 'fast', '{"effect":"${effect}"}')`

    expect(await found('withoutEffect', `${accepted};${finished};${job('outside')}`)).toBe(1)
    expect(await found('withoutEffect', `${accepted};${finished};${job('none')}`)).toBe(0)
  })

  test('find a success that was settled twice', async () => {
    const once = run('settled', 1, 10)

    expect(await found('settledTwice', `${once};${run('settled', 2, 20, 'retrying')}`)).toBe(0)
    expect(await found('settledTwice', `${once};${run('settled', 2, 20)}`)).toBe(1)
  })

  test('find two runs at the same time, and none that follow each other', async () => {
    const first = `${run('began', 1, 10)};${run('ended', 1, 50)}`

    expect(await found('overlapping', `${first};${run('began', 2, 40)}`)).toBe(1)
    expect(await found('overlapping', `${first};${run('began', 2, 60)}`)).toBe(0)
  })

  test('an incomplete line of a killed process is skipped', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-records-'))
    const path = join(folder, 'runs')
    await writeFile(path, `began ${ID} 1 1 fast 10.000 4\nbegan ${ID} 2 2 fast 20.000 4\nended ${ID} 2 2 do`)

    await loadRuns(client, [path])

    expect(await countDeliveries(client)).toEqual({ runs: 2, jobs: 1, killed: 2 })
    await rm(folder, { recursive: true })
  })
})

describe('a histogram', () => {
  test('gives percentiles at most 2 % too high, and the exact maximum', () => {
    const histogram = new Histogram()
    for (let ms = 1; ms <= 10_000; ms++) histogram.add(ms / 10)

    const { count, p50, p99, max } = histogram.spread()

    expect(count).toBe(10_000)
    expect(p50).toBeGreaterThanOrEqual(500)
    expect(p50).toBeLessThanOrEqual(500 * 1.02)
    expect(p99).toBeGreaterThanOrEqual(990)
    expect(p99).toBeLessThanOrEqual(1_000)
    expect(max).toBe(1_000)
  })

  test('merged from two processes is the one of both together', () => {
    const [one, other, both] = [new Histogram(), new Histogram(), new Histogram()]
    for (let ms = 1; ms <= 100; ms++) {
      ;(ms % 3 === 0 ? one : other).add(ms)
      both.add(ms)
    }

    one.merge(other.take())

    expect(one.spread()).toEqual(both.spread())
    expect(other.count).toBe(0)
  })

  test('of nothing has no percentiles', () => {
    expect(new Histogram().spread()).toEqual({ count: 0, p50: null, p99: null, max: null })
  })
})

describe('the bound', () => {
  const evidence = (machineBusy: number, waits: Evidence['waits'] = []): Evidence => ({
    seconds: 10,
    waits,
    counters: null,
    tables: [],
    walBytesPerJob: null,
    cpu: { machineCores: 2, machineBusy, server: 0.5, workers: 0.4, producers: null },
    waiting: { server: null, workers: null, producers: null },
  })
  const wait = (type: string, event: string, average: number) => {
    return { who: 'holdfast settle jobs', type, event, seen: 10 * average, average }
  }

  test('is processor time when the machine has none left', () => {
    expect(nameBound(evidence(1.95, [wait('IO', 'WalSync', 3)]))).toMatch(/^Processor time: machine 1\.95 of 2 cores/)
  })

  test('is what connections wait for most when processors are idle', () => {
    const waits = [wait('Client', 'ClientRead', 9), wait('CPU', 'running', 5), wait('LWLock', 'WALWrite', 2)]

    expect(nameBound(evidence(1, waits))).toMatch(/^LWLock WALWrite \(holdfast settle jobs\): /)
  })

  test('is the slots when all of them are taken and the processors are not', () => {
    const load = { running: 127, slots: 128 }

    expect(nameBound(evidence(1.85), load)).toMatch(/^Slots: 127 of 128 were taken/)
    expect(nameBound(evidence(1.95), load)).toMatch(/^Processor time: /)
  })
})

describe('a page', () => {
  const result = {
    columns: [{ title: 'jobs/s', read: () => 1_234.5 }],
    rows: [{}],
    verdicts: [{ kind: 'promise', about: 'lost jobs', expected: 'none', seen: '2', holds: false } as const],
    notes: ['Seen in passing.', 'lost jobs:\nSELECT 1;\n(0 rows)'],
    figures: { drain: { title: '', x: { label: '', scale: 'linear' as const }, panels: [] } },
    samples: [],
    evidence: {},
  }
  const machine = { cpu: 'some processor', cores: 2, node: 'v20.20.2' }
  const facts = { name: 'drain', form: 'long', seed: 3, date: '2026-11-16T01:00:00Z', tookSeconds: 9.6, machine }

  test('gets the figures of a run in place of the last ones, and keeps its other text', () => {
    const page = 'Before.\n<!-- run -->\nold figures\n<!-- end of run -->\nAfter.'

    const filled = replaceSection(page, renderRun(result, { ...facts, postgres: '18.4' }, 'results'), 'drain.md')

    expect(filled).toMatch(/^Before\.\n<!-- run -->\n\nThe long form, seed 3, 2026-11-16, 10 s: 2 cores/)
    expect(filled).toContain('| 1,235 |')
    expect(filled).toContain('| lost jobs | none | 2 | **broken** |')
    expect(filled).toContain('```sql\n-- lost jobs:\nSELECT 1;')
    expect(filled).toContain('![drain](results/drain.svg)')
    expect(filled).not.toContain('old figures')
    expect(filled).toMatch(/<!-- end of run -->\nAfter\.$/)
  })

  test('without the marks is left as it is', () => {
    expect(() => replaceSection('Words.', 'figures', 'drain.md')).toThrow(/drain\.md has no place for a run/)
  })
})
