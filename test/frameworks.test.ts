// The examples for frameworks, run as far as that is possible here: NestJS with its real packages, the routes of Next.js and the function as what
// they are, functions that a server calls, each with its worker in a process beside it.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fillProject, startProgram } from './cli/support.js'
import { type ExampleDatabases, exampleDatabases } from './support/example-databases.js'

const ROOT = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'holdfast-frameworks-'))
let databases: ExampleDatabases

beforeAll(async () => {
  databases = await exampleDatabases()
})
afterAll(async () => {
  await databases.drop()
  await rm(folder, { recursive: true, force: true })
})

/** The example compiled as its framework does, in a project that has the packages installed. */
async function compiled(example: string, packages: readonly string[], files: Record<string, string> = {}) {
  const [source, project] = [join(ROOT, 'examples', example), join(folder, example)]
  mkdirSync(project)
  await fillProject(project, files)
  for (const name of packages) symlinkSync(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
  const compilerOptions = {
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ES2022,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  }
  for (const name of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    const { outputText } = ts.transpileModule(readFileSync(join(source, name), 'utf8'), { compilerOptions })
    const file = join(project, name.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(file), { recursive: true })
    // A bundler finds files by names without extensions, Node does not.
    writeFileSync(file, outputText.replace(/from '(\.[^']*)'/g, "from '$1.js'"))
  }
  return { project, env: { HOLDFAST_URL: await databases.make(example) } }
}

async function outputOf(program: string, { project, env }: Awaited<ReturnType<typeof compiled>>): Promise<string> {
  const { code, stdout, stderr } = await startProgram([program], { cwd: project, env }).ended
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return stdout.trim()
}

test('NestJS: a provider enqueues, a method of a provider handles, and closing the application drains', async () => {
  const example = await compiled('nestjs', ['@nestjs', 'rxjs', 'reflect-metadata'])

  expect(await outputOf('main.js', example)).toBe('sent, once\ndrained')
}, 60_000)

const ORDERS = `
import { setTimeout as sleep } from 'node:timers/promises'
import { placeOrder } from './app/orders/actions.js'
import { GET, POST } from './app/orders/route.js'

const headers = { 'idempotency-key': 'form-1' }
const post = () => POST(new Request('http://local/orders', { method: 'POST', headers, body: '{"item":"nails","count":25}' }))
const [first, second] = [await post(), await post()]
const { id } = await first.json()
const form = new FormData()
form.set('item', 'screws')
form.set('count', '7')
const action = await placeOrder(form)
const resultOf = async (id) => {
  for (;;) {
    const { state, result } = await (await GET(new Request('http://local/orders?id=' + id))).json()
    if (state === 'succeeded') return result
    await sleep(20)
  }
}
const missing = await GET(new Request('http://local/orders?id=none'))
console.log(JSON.stringify({
  statuses: [first.status, second.status, missing.status],
  same: (await second.json()).id === id,
  results: [await resultOf(id), await resultOf(action.id)],
}))
process.exit(0)
`

test('Next.js: a route and a server action enqueue, once for each form, and a worker beside them runs the jobs', async () => {
  const example = await compiled('nextjs', [], { 'orders.js': ORDERS })
  const worker = startProgram(['worker.js'], { cwd: example.project, env: example.env })
  await worker.line(/ready/)

  expect(JSON.parse(await outputOf('orders.js', example))).toEqual({
    statuses: [202, 200, 404],
    same: true,
    results: [{ parcels: 3 }, { parcels: 1 }],
  })

  worker.signal('SIGTERM')
  expect((await worker.ended).code).toBe(0)
}, 60_000)

const CALLS = `
import pg from 'pg'
import { handler } from './function.js'

const answers = await Promise.all(Array.from({ length: 20 }, (_, call) => handler({ images: ['a' + call, 'b' + call] })))
const client = new pg.Client({ connectionString: process.env.HOLDFAST_URL })
await client.connect()
const count = async (sql) => Number((await client.query(sql)).rows[0].count)
const others = 'SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'
console.log(JSON.stringify({
  statuses: [...new Set(answers.map(({ statusCode }) => statusCode))],
  ids: new Set(answers.flatMap(({ body }) => JSON.parse(body).ids)).size,
  jobs: await count('SELECT count(*) FROM holdfast.jobs'),
  fewConnections: (await count(others)) <= 3,
}))
process.exit(0)
`

test('serverless: a function enqueues over at most three connections and is thrown away; a worker elsewhere runs the jobs', async () => {
  const example = await compiled('serverless', [], { 'calls.js': CALLS })
  // The tables are made by the deploy.
  const migrate = `import { connect } from 'holdfast'\nawait (await connect()).close()`
  writeFileSync(join(example.project, 'migrate.js'), migrate)
  expect(await outputOf('migrate.js', example)).toBe('')

  expect(JSON.parse(await outputOf('calls.js', example))).toEqual({
    statuses: [202],
    ids: 40,
    jobs: 40,
    fewConnections: true,
  })

  const worker = startProgram(['worker.js'], { cwd: example.project, env: example.env })
  await worker.line(/ready/)
  const wait = `import { connect } from 'holdfast'
const holdfast = await connect()
while ((await holdfast.count({ state: 'succeeded' })).count < 40) await new Promise((resolve) => setTimeout(resolve, 50))
await holdfast.close()
console.log('done')`
  writeFileSync(join(example.project, 'wait.js'), wait)
  expect(await outputOf('wait.js', example)).toBe('done')
  worker.signal('SIGTERM')
  expect((await worker.ended).code).toBe(0)
}, 90_000)
