// The OpenAPI document is valid, and what it says of each route is what the route answers, on both stores.

import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { ROUTES } from '../../src/server/routes.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'
import { EXAMPLES, pathOf } from './examples.js'
import { TestServer } from './support.js'

const SCHEMA = `server_${process.pid}`

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  memory: async () => memoryStore({ clock: systemPorts.clock }),
  postgres: () => openCleanStore(testServerUrl(), SCHEMA, systemPorts.clock),
}

afterAll(() => dropSchema(testServerUrl(), SCHEMA))

test('every route has an example, and every example a route', () => {
  expect(Object.keys(EXAMPLES).sort()).toEqual(ROUTES.map(({ name }) => name).sort())
})

describe.each(Object.keys(STORES))('on the %s store', (kind) => {
  let server: TestServer
  // biome-ignore lint/suspicious/noExplicitAny: the document is looked at piece by piece
  let document: any
  let ajv: Ajv2020

  beforeAll(async () => {
    const metrics = { contentType: 'text/plain; version=0.0.4', render: async () => '# nothing yet\n' }
    server = await TestServer.open({ metrics }, await STORES[kind]!())
    document = (await server.ask('GET', '/openapi.json')).json
    ajv = new Ajv2020({ strict: false, allErrors: true })
    ;(addFormats as unknown as (ajv: Ajv2020) => void)(ajv)
    ajv.addSchema({ ...document, $id: 'holdfast' })
  })

  afterAll(() => server.close())

  test('the document is valid OpenAPI 3.1', async () => {
    const result = await new Validator().validate(structuredClone(document))

    expect(result.errors ?? []).toEqual([])
    expect(result.valid).toBe(true)
    expect(document.openapi).toMatch(/^3\.1/)
  })

  test('the document has every route and no other', () => {
    const written = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    )

    expect(written.sort()).toEqual(ROUTES.map(({ method, path }) => `${method} ${path}`).sort())
  })

  test.each(ROUTES.map((route) => [`${route.method} ${route.path}`, route] as const))(
    '%s answers as written',
    async (_, route) => {
      const example = await EXAMPLES[route.name]!(server)
      const path = pathOf(route.path, example)
      const ending = new AbortController()
      if (route.name === 'events') return expect(await firstEvents(server, path)).toMatch(/^retry: 3000\n\n: connected/)
      const asked = { ...(example.body === undefined ? {} : { body: example.body }), signal: ending.signal }

      const answered = await server.admin(route.method, path, asked)

      expect([answered.status, answered.text]).toEqual([example.status ?? 200, answered.text])
      const written = document.paths[route.path][route.method.toLowerCase()].responses[answered.status]
      expect(written).toBeDefined()
      const [type] = Object.keys(written.content ?? {})
      expect(answered.headers.get('content-type')?.split(';')[0] ?? null).toBe(type ?? null)
      if (type === 'application/json') expect(problemsOf(route.path, route.method, answered)).toEqual([])
    },
  )

  test.each(
    ROUTES.filter(({ needs }) => needs !== 'anyone').map((route) => [`${route.method} ${route.path}`, route] as const),
  )('%s refuses strangers with a problem as written', async (_, route) => {
    const example = await EXAMPLES[route.name]!(server)

    const answered = await server.as('nobody', route.method, pathOf(route.path, example), {
      body: example.body === undefined ? undefined : example.body,
    })

    expect(answered.headers.get('content-type')).toBe('application/problem+json')
    const validate = ajv.getSchema('holdfast#/components/schemas/Problem')!
    expect(validate(answered.json)).toBe(true)
  })

  function problemsOf(path: string, method: string, { status, json }: { status: number; json: unknown }): unknown[] {
    const pointer = [path, method.toLowerCase(), 'responses', String(status), 'content', 'application/json', 'schema']
    const escaped = pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    const validate = ajv.getSchema(`holdfast#/paths/${escaped.join('/')}`)!
    validate(json)
    return (validate.errors ?? []).map(({ instancePath, message, params }) => [instancePath, message, params])
  }
})

async function firstEvents(server: TestServer, path: string): Promise<string> {
  const cookie = await server.signIn()
  const response = await fetch(`${server.listening.url}${path}`, { headers: { cookie } })
  const reader = response.body!.getReader()
  let text = ''
  while (!text.includes(': connected')) text += Buffer.from((await reader.read()).value!).toString()
  await reader.cancel()
  return text
}
