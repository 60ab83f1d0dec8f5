// A program that esbuild has made one file of, in a folder with nothing beside it: no package, no SQL, no thread, no dashboard.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildSync } from 'esbuild'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { run } from './packed.js'

const ROOT = join(import.meta.dirname, '..', '..')

// Three seconds in which the event loop stands still, with a lease of one second.
const APP = `
import { connect, defineJob } from 'holdfast'
import { createServer } from 'holdfast/server'

async function main() {
  const holdfast = await connect(process.env.APP_URL, { schema: process.env.APP_SCHEMA })
  const events = []
  holdfast.on(({ name }) => events.push(name))
  const attempts = []
  const block = defineJob('block', { timeout: '30s' }).handle((_, { attempt }) => {
    attempts.push(attempt)
    const endsAt = performance.now() + 3_000
    while (performance.now() < endsAt);
    return 'done'
  })
  let refused = null
  try {
    holdfast.worker({ handlers: [block], processes: 1, module: process.argv[1] })
  } catch (error) {
    refused = error.code
  }
  const worker = holdfast.worker({ handlers: [block], lease: '1s', heartbeat: '300ms' })
  await worker.start()
  const { id } = await holdfast.enqueue('block', null)
  const result = await holdfast.wait(id)
  const server = createServer(holdfast, { insecureNoAuth: true })
  const page = await server.fetch(new Request('http://localhost/'))
  const html = await page.text()
  const script = /src="(?:\\.\\/)?(assets\\/[^"]+\\.js)"/.exec(html)?.[1]
  const asset = await server.fetch(new Request('http://localhost/' + script))
  await holdfast.close()
  console.log(JSON.stringify({
    result, attempts, refused, page: page.status, title: /<title>([^<]*)/.exec(html)?.[1],
    asset: asset.status, bytes: (await asset.text()).length, failed: events.filter((name) => name === 'store.failed'),
  }))
}
main().catch((error) => { console.error(error); process.exitCode = 1 })
`

let folder: string
const schemas: string[] = []
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-bundled-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  for (const schema of schemas) await dropSchema(testServerUrl(), schema)
})

/** Bundles the program in a project of its own and puts the one file into an empty folder. */
function bundle(format: 'esm' | 'cjs'): string {
  const project = mkdtempSync(join(folder, 'project-'))
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(ROOT, join(project, 'node_modules', 'holdfast'), 'junction')
  writeFileSync(join(project, 'app.js'), APP)
  const out = join(mkdtempSync(join(folder, 'empty-')), format === 'esm' ? 'app.mjs' : 'app.cjs')
  // The driver requires Node's own modules, which a bundle in ES modules gives it this way.
  const js = "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);"
  const banner = format === 'esm' ? { js } : {}
  buildSync({
    entryPoints: [join(project, 'app.js')],
    outfile: out,
    bundle: true,
    platform: 'node',
    format,
    banner,
    logLevel: 'error',
  })
  return out
}

describe.each(['esm', 'cjs'] as const)('bundled as %s', (format) => {
  test('it connects, keeps the lease of a job that blocks the event loop, serves the dashboard, and refuses child processes', {
    timeout: 90_000,
  }, () => {
    const out = bundle(format)
    const schema = `bundled_${format}_${process.pid}`
    schemas.push(schema)

    const ended = run('node', [out], { cwd: join(out, '..'), env: { APP_URL: testServerUrl(), APP_SCHEMA: schema } })

    expect(ended.stderr).toBe('')
    const report = JSON.parse(ended.stdout)
    expect(report).toMatchObject({
      result: 'done',
      attempts: [1],
      page: 200,
      title: 'Holdfast',
      asset: 200,
      failed: [],
    })
    expect(report.refused).toBe('unsupported')
    expect(report.bytes).toBeGreaterThan(100_000)
  })
})
