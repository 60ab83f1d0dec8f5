// The files in deploy/ use options that the command has, and Prometheus scrapes where it listens.

import { existsSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { RedisServer } from '../../lab/servers/redis.js'
import { openTestStore } from './store.js'
import { type RunOptions, run, start } from './support.js'

const ROOT = join(import.meta.dirname, '..', '..')
const DEPLOY = join(ROOT, 'deploy')
const read = (file: string) => readFileSync(join(DEPLOY, file), 'utf8')

const MAIN = 'dist/src/cli/main.js'

interface Service {
  readonly command?: string | readonly string[]
  readonly ports?: readonly string[]
  readonly profiles?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
}

const { services } = parse(read('compose.yaml'), { merge: true }) as { services: Record<string, Service> }

/** The words after the command's file, in every service that runs it. */
const lines = Object.entries(services).flatMap(([name, { command = [] }]) => {
  const words = (typeof command === 'string' ? [command] : command).flatMap((word) => word.split(' '))
  const at = words.indexOf(MAIN)
  const end = words.indexOf('>') === -1 ? words.length : words.indexOf('>')
  return at === -1 ? [] : [{ name, words: words.slice(at + 1, end) }]
})

const valueIn = (service: string, flag: string) => {
  const { words } = lines.find(({ name }) => name === service)!
  return words[words.indexOf(flag) + 1]
}

const store = openTestStore('deploy')

describe('compose.yaml', () => {
  test('runs the command as a worker, as a server and to make a key', () => {
    expect(lines.map(({ name, words }) => `${name}: ${words[0]}`)).toEqual([
      ...['redis-worker: worker', 'redis-server: server', 'worker: worker', 'server: server', 'scrape-key: keys'],
    ])
    expect(existsSync(join(ROOT, MAIN))).toBe(true)
  })

  test('has no password of its own: without those of the environment nothing starts', () => {
    const text = read('compose.yaml')
    const variables = [...text.matchAll(/\$\{([A-Z_]+)([^}]*)\}/g)].map(([, name, rest]) => [name, rest])

    expect(new Set(variables.map(([name]) => name))).toEqual(
      new Set(['POSTGRES_PASSWORD', 'REDIS_PASSWORD', 'GRAFANA_PASSWORD']),
    )
    for (const [name, rest] of variables) expect(rest).toBe(`:?set ${name}, see deploy/README.md`)
    expect(text).not.toMatch(/(?:PASSWORD|AUTH): (?!\$\{)/)
    expect(read('README.md')).toContain('for name in POSTGRES REDIS GRAFANA')
  })

  test.each(lines)('$name uses only options its command has', async ({ words }) => {
    const flags = words.filter((word) => word.startsWith('--'))
    const path = words[0] === 'keys' ? words.slice(0, 2) : words.slice(0, 1)

    const { code, stdout } = await run([...path, '--help'])

    expect(code).toBe(0)
    expect(flags.length).toBeGreaterThan(0)
    expect(flags.filter((flag) => !new RegExp(`^ +${flag}\\b`, 'm').test(stdout))).toEqual([])
  })

  test('its worker starts with the flags and the module it is given, and serves metrics', async () => {
    const { words } = lines.find(({ name }) => name === 'worker')!
    const args = words.map((word) => (word === valueIn('worker', '--metrics-port') ? '0' : word))
    const worker = start(args, { ...store.at, cwd: ROOT })

    const line = await worker.line(/http:\/\/0\.0\.0\.0:\d+\/metrics/)
    const port = /0\.0\.0\.0:(\d+)/.exec(line)![1]
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`)

    expect(answer.status).toBe(200)
    expect(await answer.text()).toContain('holdfast_worker_slots 64')
  })

  test('its server answers a scraper that has the key of the service beside it', async () => {
    const { words } = lines.find(({ name }) => name === 'server')!
    const args = words.map((word) => (word === valueIn('server', '--port') ? '0' : word))
    const server = start([...args, '--json'], store.at)
    const { port } = JSON.parse(await server.line(/"signInFile"/)) as { port: number }
    const made = await store.holdfastCommand(lines.find(({ name }) => name === 'scrape-key')!.words)
    // As names of containers reach it; fetch sets its own Host.
    const ask = (authorization: string) => askAs({ port, host: valueIn('server', '--allow-host')!, authorization })

    expect(made.code).toBe(0)
    expect(await ask(`Bearer ${made.stdout.trim()}`)).toBe(200)
    expect(await ask('Bearer wrong')).toBe(401)
  })
})

describe('the profile redis', () => {
  const PASSWORD = 'letters0and1digits'
  /** The settings of a service, with the password in its place and the server of the test in the place of the container. */
  const filled = (text: string, port = 6_379) =>
    text.replace(/\$\{REDIS_PASSWORD[^}]*\}/, PASSWORD).replace('@redis:6379', `@127.0.0.1:${port}`)
  let server: RedisServer
  let at: RunOptions

  beforeAll(async () => {
    const [program, ...words] = services.redis!.command as readonly string[]
    expect(program).toBe('redis-server')
    const flags = words.flatMap((word, index) => (index % 2 === 0 ? [[word.slice(2), filled(words[index + 1]!)]] : []))
    server = (await RedisServer.open(Object.fromEntries(flags)))!
    const { HOLDFAST_URL } = services['redis-worker']!.environment!
    at = { env: { HOLDFAST_URL: filled(HOLDFAST_URL!, server.port) }, cwd: ROOT }
  })
  afterAll(() => server.close())

  test('has a worker and a server on one Redis that needs its password', async () => {
    const those = Object.entries(services).filter(([, { profiles = [] }]) => profiles.includes('redis'))
    const stranger = await run(['stats'], { env: { HOLDFAST_URL: server.url } })

    expect(those.map(([name]) => name)).toEqual(['redis', 'redis-worker', 'redis-server'])
    expect(services['redis-server']!.environment).toEqual(services['redis-worker']!.environment)
    expect(stranger.stderr).toMatch(/access_denied/)
  })

  test('its worker runs a job that its server took, and its healthcheck passes', { timeout: 90_000 }, async () => {
    const wordsOf = (name: string) => lines.find((line) => line.name === name)!.words
    const worker = start(wordsOf('redis-worker'), at)
    const listening = wordsOf('redis-server').map((word) => (word === valueIn('redis-server', '--port') ? '0' : word))
    const web = start([...listening, '--json'], at)
    const { port } = JSON.parse(await web.line(/"signInFile"/)) as { port: number }
    await worker.line(/1 types?/)

    const { stdout: id } = await run(['enqueue', 'greet'], at)

    await expect
      .poll(async () => (await run(['jobs', 'show', id.trim(), '--json'], at)).stdout, { timeout: 30_000 })
      .toMatch(/"state": ?"succeeded"/)
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
    expect(services['redis-server']!.ports).toEqual([
      `${valueIn('redis-server', '--allow-host')!.replace('localhost', '127.0.0.1')}:4680`,
    ])
  })

  test('doctor finds nothing wrong with its settings but that there is no replica', async () => {
    const { stdout, stderr } = await run(['doctor', '--json'], at)
    expect(stderr).toBe('')
    const { checks } = JSON.parse(stdout) as { checks: readonly { level: string; name: string }[] }

    // Its worker has just been killed, which takes a while to be noticed.
    const wrong = checks.filter(({ level, name }) => level !== 'ok' && name !== 'workers')
    expect(wrong.map(({ name }) => name)).toEqual(['replicas'])
  })

  test('the image keeps the driver, which needs no other package', () => {
    const driver = JSON.parse(readFileSync(join(ROOT, 'node_modules/@redis/client/package.json'), 'utf8'))

    expect(read('Dockerfile')).toMatch(
      /cp -r node_modules\/@redis \/redis .*\n?.*prune .* mv \/redis node_modules\/@redis/,
    )
    expect(driver.dependencies ?? {}).toEqual({})
  })
})

describe('prometheus.yaml', () => {
  const { scrape_configs: jobs } = parse(read('prometheus.yaml')) as {
    scrape_configs: {
      job_name: string
      dns_sd_configs?: { names: string[]; port: number }[]
      static_configs?: { targets: string[] }[]
      authorization?: { credentials_file: string }
    }[]
  }
  const job = (name: string) => jobs.find(({ job_name }) => job_name === name)!

  test('looks for workers and the server where they listen', () => {
    const [workers] = job('holdfast-worker').dns_sd_configs!
    const [server] = job('holdfast-server').static_configs!

    expect(workers).toMatchObject({ names: ['worker'], port: Number(valueIn('worker', '--metrics-port')) })
    expect(server!.targets).toEqual([`server:${valueIn('server', '--port')}`])
    // The Host it sends is one the server answers to.
    expect(server!.targets).toEqual([valueIn('server', '--allow-host')])
    expect(services.server!.ports).toEqual([`127.0.0.1:${valueIn('server', '--port')}:${valueIn('server', '--port')}`])
  })

  test('reads the server with the key that is made for it', () => {
    const file = job('holdfast-server').authorization!.credentials_file

    expect(services['scrape-key']!.command).toEqual(expect.arrayContaining([expect.stringContaining(`> ${file}`)]))
  })
})

interface Asking {
  readonly port: number
  readonly host: string
  readonly authorization: string
}

function askAs({ port, host, authorization }: Asking): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path: '/metrics', headers: { host, authorization } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode!)
    })
    asked.on('error', reject).end()
  })
}
