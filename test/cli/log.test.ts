// The log of worker and server: structured, by level, and without secrets.

import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openTestStore } from './store.js'
import { makeProject, start } from './support.js'

const store = openTestStore('log')

const JOBS = `
import { defineJob } from 'holdfast'
const refuse = { '~standard': { version: 1, vendor: 'test', validate: (value) => value.bad ? { issues: [{ message: 'it is bad' }] } : { value } } }
export const handlers = [
  defineJob('fine', { queue: 'log' }).handle((payload) => ({ echo: payload })),
  defineJob('failing', { queue: 'log', maxAttempts: 1 }).handle(() => { throw new Error('the bank does not answer') }),
  defineJob('strict', { queue: 'log', input: refuse }).handle(() => 1),
]
`

const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

describe('the log of a worker', () => {
  test('is JSON outside a terminal, with level, time, event and job', async () => {
    const cwd = await makeProject({ 'jobs.js': JOBS })
    const worker = start(['worker', './jobs.js'], { ...store.at, cwd })
    const { id } = await store.holdfast.enqueue('failing', null, { queue: 'log' })
    await worker.line(/"event":"job.settled"/)
    worker.signal('SIGTERM')
    const { code, stdout, stderr } = await worker.ended

    const lines = linesOf(stderr)
    expect(code).toBe(0)
    expect(stdout).toBe('')
    expect(lines).toContainEqual(
      expect.objectContaining({ level: 'warn', event: 'job.ended', id, error: 'the bank does not answer' }),
    )
    expect(lines).toContainEqual(
      expect.objectContaining({ level: 'error', event: 'job.settled', id, state: 'dead', reason: 'attempts' }),
    )
    expect(lines.every(({ time }) => !Number.isNaN(Date.parse(time as string)))).toBe(true)
    // A line for each job needs --log-level debug.
    expect(lines.filter(({ event }) => event === 'job.started')).toEqual([])
  })

  test('silent logs nothing', async () => {
    const cwd = await makeProject({ 'jobs.js': JOBS })
    const worker = start(['worker', './jobs.js', '--log-level', 'silent'], { ...store.at, cwd })
    const { id } = await store.holdfast.enqueue('fine', null, { queue: 'log' })
    await store.holdfast.wait(id, { timeout: '60s' })
    worker.signal('SIGTERM')

    expect(await worker.ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })
})

describe('secrets', () => {
  test.each(['pretty', 'json'])(
    'of payloads, headers and the URL are in no %s log, no answer of the commands and no metric',
    { timeout: 90_000 },
    async (format) => {
      const canary = 'CANARY-3f9c1e'
      const url = new URL(store.url)
      // A role of its own, whose password is the canary.
      const role = `log_${format}_${process.pid}`
      const sql = new pg.Client({ connectionString: store.url })
      await sql.connect()
      await sql.query(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD '${canary}'`)
      onTestFinished(async () => {
        await sql.query(`DROP ROLE ${role}`)
        await sql.end()
      })
      url.username = role
      url.password = canary
      const env = { ...store.at.env, HOLDFAST_URL: url.href, HOLDFAST_TOKEN: `${canary}-${'x'.repeat(40)}` }
      const cwd = await makeProject({ 'jobs.js': JOBS })
      const log = ['--log-format', format, '--log-level', 'debug']
      const worker = start(['worker', './jobs.js', '--metrics-port', '0', ...log], { cwd, env })
      const server = start(['server', '--json', '--port', '0', ...log], { cwd, env })
      const { url: at } = JSON.parse(await server.line(/"signInFile"/)) as { url: string }
      const metricsUrl = /http:\/\/127[^\s"]+\/metrics/.exec(await worker.line(/http:\/\/127\S+\/metrics/))![0]
      const headers = {
        authorization: `Bearer ${env.HOLDFAST_TOKEN}`,
        'content-type': 'application/json',
        'x-secret': canary,
        cookie: `other=${canary}`,
      }
      const post = async (body: object) => {
        const response = await fetch(`${at}/v1/jobs?`, { method: 'POST', headers, body: JSON.stringify(body) })
        return (await response.json()) as { id: string }
      }

      const jobs = await Promise.all(
        ['fine', 'failing', 'strict'].map((type) =>
          post({ type, queue: 'log', payload: { secret: canary, bad: type === 'strict' } }),
        ),
      )
      for (const { id } of jobs) await store.holdfast.wait(id, { timeout: '60s' }).catch(() => {})
      await fetch(`${at}/v1/jobs`, { headers: { authorization: `Bearer ${canary}` } })
      await fetch(`${at}/v1/jobs?filter=${canary}`, { headers })
      await post({ type: `no spaces ${canary}` })
      const metrics = await (await fetch(metricsUrl)).text()
      const serverMetrics = await (await fetch(`${at}/metrics`, { headers })).text()
      for (const running of [worker, server]) running.signal('SIGTERM')
      const ended = await Promise.all([worker.ended, server.ended])

      const everything = [...ended.flatMap(({ stdout, stderr }) => [stdout, stderr]), metrics, serverMetrics].join('\n')
      expect(ended.map(({ code }) => code)).toEqual([0, 0])
      expect(everything).toContain('POST /v1/jobs 201')
      expect(everything).toContain('the bank does not answer')
      expect(metrics).toMatch(/holdfast_jobs_settled_total\{.*type="fine"/)
      expect(everything).not.toContain(canary)
    },
  )
})
