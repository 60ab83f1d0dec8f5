// What each scope may do: every request with every set of scopes, held to the table in docs/server.md.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KEY_SCOPES, type KeyScope } from '../../src/core/operating.js'
import { PERMISSIONS } from '../../src/server/permissions.js'
import { ROUTES } from '../../src/server/routes.js'
import { EXAMPLES, type Example, pathOf } from './examples.js'
import { TestServer } from './support.js'

let server: TestServer
const keys = new Map<string, string>()

beforeAll(async () => {
  server = await TestServer.open()
  for (const scopes of SETS) keys.set(scopes.join(' '), await server.key(scopes))
})

afterAll(() => server.close())

/** Sets of scopes: one, two, all but one, and all. No route needs more than two. */
const SETS: readonly (readonly KeyScope[])[] = Array.from({ length: 2 ** KEY_SCOPES.length - 1 }, (_, index) =>
  KEY_SCOPES.filter((_scope, bit) => ((index + 1) >> bit) % 2 === 1),
).filter(({ length }) => length <= 2 || length >= KEY_SCOPES.length - 1)

/** The table of the guide: what a request needs. */
const WRITTEN = new Map<string, readonly string[]>()
const guide = readFileSync(join(import.meta.dirname, '../../docs/server.md'), 'utf8')
for (const row of /\n\| needs[^\n]*\n[^\n]*\n((?:\|[^\n]*\n)+)/.exec(guide)![1]!.trim().split('\n')) {
  const [, needs = '', requests = ''] = row.split('|')
  const scopes = [...needs.matchAll(/`([^`]+)`/g)].map(([, scope]) => scope!)
  for (const [, name] of requests.replaceAll(/\([^)]*\)/g, '').matchAll(/`([^`]+)`/g)) {
    WRITTEN.set(name!, scopes.length > 0 ? scopes : [needs.trim()])
  }
}

test('the guide says what the table of permissions says', () => {
  const table = Object.entries(PERMISSIONS).map(([name, needs]) => {
    const said = needs === 'anyone' ? ['nothing'] : needs === 'signed_in' ? ['a sign-in or a key'] : [...needs]
    return [name, said]
  })

  expect(Object.fromEntries(WRITTEN)).toEqual(Object.fromEntries(table))
})

test('the OpenAPI document says it too', async () => {
  const { paths } = (await server.ask('GET', '/openapi.json')).json

  for (const { method, path, name } of ROUTES) {
    const scopes = WRITTEN.get(name)!.filter((need) => KEY_SCOPES.includes(need as KeyScope))
    expect([name, paths[path][method.toLowerCase()]['x-scopes'] ?? []]).toEqual([name, scopes])
  }
})

function has(scopes: readonly KeyScope[], need: string): boolean {
  if (need === 'nothing' || need === 'a sign-in or a key' || scopes.includes('admin')) return true
  return scopes.includes(need as KeyScope) || (need === 'read' && scopes.includes('read:payload'))
}

async function statusOf(scopes: readonly KeyScope[], method: string, path: string, body: unknown): Promise<number> {
  return (await server.as(keys.get(scopes.join(' '))!, method, path, { body })).status
}

describe.each(ROUTES.filter(({ needs }) => needs !== 'anyone').map((route) => [route.name, route] as const))(
  '%s',
  (name, route) => {
    test('is served to the sets of scopes that it needs, and to no other', async () => {
      for (const scopes of SETS) {
        const example: Example = await EXAMPLES[name]!(server)
        // A look with GET would never end.
        const method = name === 'events' ? 'HEAD' : route.method
        const isEnough = WRITTEN.get(name)!.every((need) => has(scopes, need))
        const mayChangePayload = name !== 'updateJob' || ['operate', 'enqueue'].every((need) => has(scopes, need))

        const status = await statusOf(scopes, method, pathOf(route.path, example), example.body ?? {})

        // /metrics is 404 here: this server has none.
        if (isEnough && mayChangePayload) expect([200, 201, 202, 204, 404], scopes.join(' ')).toContain(status)
        else expect(status, scopes.join(' ')).toBe(403)
      }
    })
  },
)

test('operate without enqueue creates no job by a schedule, and changes no payload', async () => {
  const { id } = await server.holdfast.enqueue('pay', { to: 'ada' }, { queue: 'mail', delay: '1h' })
  await server.holdfast.schedule('nightly', { cron: '0 3 * * *', job: 'report' })
  const body = { cron: '* * * * *', type: 'pay', payload: { to: 'mallory' } }

  expect(await statusOf(['operate'], 'PUT', '/v1/schedules/nightly', body)).toBe(403)
  expect(await statusOf(['operate'], 'POST', '/v1/schedules/nightly/run', {})).toBe(403)
  expect(await statusOf(['operate'], 'PATCH', `/v1/jobs/${id}`, { payload: { to: 'mallory' } })).toBe(403)
  expect(await statusOf(['operate'], 'PATCH', `/v1/jobs/${id}`, { priority: 1, payload: null })).toBe(403)
  expect((await server.holdfast.get(id))!).toMatchObject({ payload: { to: 'ada' }, priority: 0 })
  expect((await server.holdfast.schedules()).find(({ name }) => name === 'nightly')!.cron).toBe('0 3 * * *')

  expect(await statusOf(['operate'], 'PATCH', `/v1/jobs/${id}`, { priority: 1 })).toBe(200)
})

test('enqueue alone clones no job by its id, whether it exists or not', async () => {
  const { id } = await server.holdfast.enqueue('pay', { to: 'ada' }, { queue: 'mail' })

  expect(await statusOf(['enqueue'], 'POST', `/v1/jobs/${id}/clone`, {})).toBe(403)
  expect(await statusOf(['enqueue'], 'POST', '/v1/jobs/00000000-0000-7000-8000-000000000000/clone', {})).toBe(403)
})
