// holdfast worker --processes: the command with its children as real processes.

import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/holdfast.js'
import { isAlive, until } from '../host/stage.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { makeProject, type Running, type RunOptions, run, start } from './support.js'

const url = testServerUrl()
const schema = `cli_children_${randomBytes(4).toString('hex')}`
const at: RunOptions = { env: { HOLDFAST_URL: url, HOLDFAST_SCHEMA: schema } }

let holdfast: Holdfast

beforeAll(async () => {
  holdfast = await connect(url, { schema })
})

afterAll(async () => {
  await holdfast.close()
  await dropSchema(url, schema)
})

const JOBS = `
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from 'holdfast'
const queue = process.env.TEST_QUEUE
export const handlers = [
  defineJob('where', { queue }).handle(() => process.pid),
  defineJob('slow', { queue }).handle((file) => {
    writeFileSync(file, '')
    return sleep(1_000).then(() => process.pid)
  }),
  defineJob('spin', { queue }).handle((file) => {
    writeFileSync(file, '')
    for (;;);
  }),
]
`

interface Started {
  readonly running: Running
  readonly queue: string
  readonly cwd: string
}

async function startWorker(...args: string[]): Promise<Started> {
  const queue = `q${randomBytes(4).toString('hex')}`
  const cwd = await makeProject({ 'jobs.js': JOBS })
  const words = ['worker', './jobs.js', '--processes', '2', '--log-format', 'pretty', ...args]
  const running = start(words, { cwd, env: { ...at.env, TEST_QUEUE: queue } })
  await running.line(/^worker \S+: 3 types/)
  return { running, queue, cwd }
}

/** The processes whose parent this is. */
function childrenOf(pid: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
      return /^\d+$/.test(name) && parent === pid ? [Number(name)] : []
    } catch {
      return []
    }
  })
}

/** Resolves when it is so. */
async function eventually(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 30_000
  while (!(await isSo())) if (performance.now() > deadline) throw new Error('it never was so')
}

/** Enqueues a job whose handler makes a file, and resolves when the file is there. */
async function enqueueAndSee(type: string, { queue, cwd }: Started): Promise<string> {
  const { id } = await holdfast.enqueue(type, `${cwd}/${type}`, { queue })
  await until(() => readdirSync(cwd).includes(type))
  return id
}

describe.skipIf(process.platform !== 'linux')('holdfast worker --processes 2', () => {
  test('runs jobs in two children, which the list of workers shows', async () => {
    const { running, queue } = await startWorker()
    const children = await until(() => {
      const pids = childrenOf(running.pid)
      return pids.length === 2 ? pids : null
    })
    const jobs = await holdfast.enqueueMany(
      'where',
      Array.from({ length: 20 }, () => null),
      { queue },
    )

    const pids = await Promise.all(jobs.map(({ id }) => holdfast.wait(id, { timeout: '30s' })))
    const { stdout } = await run(['workers', 'list'], at)
    const { stdout: document } = await run(['workers', 'list', '--json'], at)

    expect(children).toEqual(expect.arrayContaining(pids as number[]))
    expect(stdout).toMatch(/children/i)
    expect(JSON.parse(document)).toMatchObject({ workers: [{ children: { restarts: 0 } }] })
  })

  test('counts children, and those that ended by their reason', async () => {
    const { running } = await startWorker('--metrics-port', '0')
    const [, metricsUrl] = /metrics at (\S+)/.exec(await running.line(/metrics at/))!
    const read = async () => (await fetch(metricsUrl!)).text()
    const pids = await until(() => {
      const found = childrenOf(running.pid)
      return found.length === 2 ? found : null
    })
    await eventually(async () => /^holdfast_children 2$/m.test(await read()))

    process.kill(pids[0]!, 'SIGKILL')

    await eventually(async () => {
      const text = await read()
      const isCounted = text.includes('holdfast_children_ended_total{isolate="process",reason="exit"} 1')
      return isCounted && /^holdfast_children 2$/m.test(text)
    })
  })

  test('drains on SIGTERM: the job finishes in its child, the exit code is 0, no child is left', async () => {
    const started = await startWorker()
    const id = await enqueueAndSee('slow', started)
    const children = childrenOf(started.running.pid)

    started.running.signal('SIGTERM')
    const { code } = await started.running.ended

    expect(code).toBe(0)
    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 })
    expect(children).toContain((await holdfast.get(id))!.result)
    expect(children.filter(isAlive)).toEqual([])
  })

  test('exits immediately on a second signal; also a child that spins is gone', async () => {
    const started = await startWorker('--drain-timeout', 'unlimited')
    await enqueueAndSee('spin', started)
    const children = childrenOf(started.running.pid)

    started.running.signal('SIGTERM')
    await started.running.line(/^stopping: 1 running/)
    // The same signal twice within half a second counts once.
    await new Promise((resolve) => setTimeout(resolve, 600))
    started.running.signal('SIGTERM')
    const { code } = await started.running.ended

    expect(code).toBe(143)
    expect(children.length).toBeGreaterThan(0)
    await until(() => !children.some(isAlive), 5_000)
  })

  test.each([
    { flags: ['--processes', '-1'], says: 'processes' },
    { flags: ['--processes', '65'], says: 'processes must be a whole number from 0 to 64, got 65' },
    { flags: ['--processes', 'many'], says: 'processes' },
    { flags: ['--processes', '1.5'], says: 'processes' },
    { flags: ['--processes', '2', '--child-memory', '8'], says: 'childMemory must be a whole number from 32' },
    { flags: ['--processes', '2', '--child-jobs', '0'], says: 'childJobs must be a whole number from 1' },
    { flags: ['--child-memory', '64'], says: '--child-memory and --child-jobs need children: add --processes' },
    { flags: ['--child-jobs', '5'], says: '--child-memory and --child-jobs need children: add --processes' },
  ])('$flags is refused before anything connects', async ({ flags, says }) => {
    const cwd = await makeProject({ 'jobs.js': JOBS })

    const { code, stderr } = await run(['worker', './jobs.js', ...flags, '--url', 'postgres://127.0.0.1:1/none'], {
      cwd,
    })

    expect(code).toBe(2)
    expect(stderr).toContain(says)
  })
})
