import { execFile } from 'node:child_process'
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openTestStore } from './store.js'
import { makeProject, type Running, run, start } from './support.js'

const store = openTestStore('server')

const GREET = `
import { defineJob } from 'holdfast'
export const handlers = [defineJob('greet', { queue: 'hello' }).handle((payload) => 'hello, ' + payload.name)]
`

interface Announced {
  readonly url: string
  readonly signInFile: string | null
  readonly port: number
}

/** A server on any free port; resolves when it listens. */
async function startServer(...args: string[]): Promise<Announced & { readonly running: Running }> {
  const running = start(['server', '--json', '--port', '0', ...args], store.at)
  return { running, ...JSON.parse(await running.line(/"signInFile"/)) }
}

interface Sent {
  readonly status: number
  readonly body: Record<string, unknown>
}

/** With curl itself: it is what people try first. */
async function curl(url: string, key: string, body: unknown): Promise<Sent> {
  const headers = ['-H', `Authorization: Bearer ${key}`, '-H', 'Content-Type: application/json']
  const args = ['-sS', '-w', '\n%{http_code}', url, ...headers, '-d', JSON.stringify(body)]
  const { stdout } = await promisify(execFile)('curl', args)
  const [text, status] = stdout.split(/\n(?=\d{3}$)/)
  return { status: Number(status), body: JSON.parse(text!) }
}

describe('server', () => {
  test('prints one line of JSON; the address that signs in once is in a file for its owner alone', async () => {
    const file = join(await makeProject(), 'sign-in')
    writeFileSync(file, 'of an earlier run', { mode: 0o644 })
    const { running, url, signInFile } = await startServer('--sign-in-file', file)
    const signInUrl = readFileSync(file, 'utf8').trim()
    const { mode } = statSync(file)

    const first = await fetch(signInUrl, { redirect: 'manual' })
    const cookie = first.headers.get('set-cookie')!.split(';')[0]!
    const second = await fetch(signInUrl, { redirect: 'manual' })
    const me = await fetch(`${url}/v1/me`, { headers: { cookie } })
    running.signal('SIGTERM')
    const { code, stdout, stderr } = await running.ended

    expect(url).toMatch(/^http:\/\/localhost:\d+$/)
    expect(signInFile).toBe(file)
    expect(mode & 0o777).toBe(0o600)
    expect(me.status).toBe(200)
    expect(second.headers.get('set-cookie')).toBeNull()
    expect(code).toBe(0)
    expect(stdout.trim().split('\n')).toHaveLength(1)
    expect(`${stdout}${stderr}`).not.toContain('token=')
    expect(existsSync(file)).toBe(false)
  })

  test('a link in place of the file is not followed', async () => {
    const cwd = await makeProject()
    writeFileSync(join(cwd, 'elsewhere'), 'mine')
    symlinkSync(join(cwd, 'elsewhere'), join(cwd, 'sign-in'))

    await startServer('--sign-in-file', join(cwd, 'sign-in'))

    expect(readFileSync(join(cwd, 'elsewhere'), 'utf8')).toBe('mine')
    expect(readFileSync(join(cwd, 'sign-in'), 'utf8')).toContain('?token=')
  })

  test.each(['pretty', 'json'])('prints no token outside a terminal, log format %s', async (format) => {
    const running = start(['server', '--port', '0', '--log-format', format], store.at)

    await running.line(/^open http:\/\/localhost:\d+$/)
    await running.line(/sign in with an API key \(`holdfast keys create`\), or start with --sign-in-file/)
    running.signal('SIGINT')
    const { code, stdout, stderr } = await running.ended

    expect(code).toBe(0)
    expect(stdout).toBe('')
    expect(stderr).not.toContain('token=')
  })

  test('a job sent with curl is run by a worker of another process; its key again gets 200 and the same id', async () => {
    const { url } = await startServer()
    const cwd = await makeProject({ 'jobs.js': GREET })
    start(['worker', './jobs.js'], { ...store.at, cwd })
    const { secret } = await store.holdfast.createKey({ name: 'shop', scopes: ['enqueue'] })
    const job = { type: 'greet', queue: 'hello', payload: { name: 'Ada' }, idempotencyKey: { key: 'once', for: '1h' } }

    const first = await curl(`${url}/v1/jobs`, secret, job)
    const result = await store.holdfast.wait(first.body.id as string, { timeout: '60s' })
    const second = await curl(`${url}/v1/jobs`, secret, job)

    expect([first.status, first.body.created]).toEqual([201, true])
    expect(result).toBe('hello, Ada')
    expect([second.status, second.body]).toEqual([200, { id: first.body.id, created: false, state: 'succeeded' }])
  })

  test('a signal ends open event streams, and the command ends with 0', async () => {
    const { running, url } = await startServer()
    const { secret } = await store.holdfast.createKey({ name: 'watcher', scopes: ['read'] })
    const events = await fetch(`${url}/v1/events`, { headers: { authorization: `Bearer ${secret}` } })

    running.signal('SIGTERM')
    const text = await events.text()
    const { code, signal } = await running.ended

    expect(events.status).toBe(200)
    expect(text).toContain(': connected')
    expect([code, signal]).toEqual([0, null])
  })

  test('answers requests to its own and the given hosts, and to no others', async () => {
    const args = ['server', '--json', '--port', '0', '--allow-host', 'queue.example.com']
    const { port } = JSON.parse(await start(args, store.at).line(/"signInFile"/)) as { port: number }
    const ask = async (host: string) => {
      const { stdout } = await promisify(execFile)('curl', [
        ...['-sS', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Host: ${host}`, `http://127.0.0.1:${port}/healthz`],
      ])
      return stdout
    }

    const answers = [await ask('queue.example.com'), await ask(`localhost:${port}`), await ask('evil.example.com')]

    expect(answers).toEqual(['200', '200', '421'])
  })

  test('a token from a file or the environment allows everything, and --read-only refuses changes', async () => {
    const token = 'a-token-for-tests-that-is-long-enough-0123456789'
    const cwd = await makeProject({ token })
    const file = start(['server', '--json', '--port', '0', '--token-file', 'token', '--read-only'], {
      ...store.at,
      cwd,
    })
    const { url } = JSON.parse(await file.line(/"signInFile"/)) as Announced
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }

    const looked = await fetch(`${url}/v1/queues`, { headers })
    const metrics = await fetch(`${url}/metrics`, { headers })
    const changed = await fetch(`${url}/v1/jobs`, { method: 'POST', headers, body: '{"type":"greet"}' })

    expect([looked.status, metrics.status, changed.status]).toEqual([200, 200, 403])
    expect(await metrics.text()).toContain('holdfast_store_up 1')
    expect(await changed.json()).toMatchObject({ code: 'read_only' })
  })

  test('a port that is taken is reported, and ends with 5', async () => {
    const blocker = createServer()
    const port = await new Promise<number>((resolve) => {
      blocker.listen(0, '127.0.0.1', () => resolve((blocker.address() as { port: number }).port))
    })
    onTestFinished(() => void blocker.close())

    const { code, stderr } = await run(['server', '--port', String(port)], store.at)

    expect(code).toBe(5)
    expect(stderr).toContain(`port ${port} is taken by another program`)
  })

  test('an unreachable store ends it with 4; a wrong option ends it with 2 before anything connects', async () => {
    const unreachable = await run(['server', '--port', '0', '--url', 'postgres://127.0.0.1:1/none'])
    const wrong = await run(['server', '--host', '0.0.0.0', '--url', 'postgres://127.0.0.1:1/none'])

    expect(unreachable.code).toBe(4)
    expect(wrong.code).toBe(2)
    expect(wrong.stderr).toContain('to listen on 0.0.0.0 the server needs a way to sign in')
  })
})

describe('docs/server.md', () => {
  test('its lines of curl are answered', { timeout: 60_000 }, async () => {
    const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'server.md'), 'utf8')
    const blocks = [...page.matchAll(/^```sh\n(curl .*?)^```/gms)].map(([, text]) => text!)
    const { url } = await startServer()
    const { secret } = await store.holdfast.createKey({ name: 'reader', scopes: ['read', 'enqueue', 'operate'] })
    const env = { ...process.env, URL: url, KEY: secret }

    const answers: string[] = []
    for (const block of blocks) {
      const { stdout } = await promisify(execFile)('bash', ['-euc', block], { env })
      answers.push(stdout)
    }

    expect(blocks.length).toBe(6)
    expect(JSON.parse(answers[0]!)).toMatchObject({ created: true, state: 'scheduled' })
    expect(JSON.parse(answers[2]!).jobs.length).toBeGreaterThan(0)
    expect(JSON.parse(answers[3]!).matches).toBeGreaterThan(0)
    expect(answers[4]).toMatch(
      /"name": ?"stripe"[\s\S]*"created": ?true[\s\S]*"forced": ?"open"[\s\S]*"group": ?"acme"/,
    )
  })
})
