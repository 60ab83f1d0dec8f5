// The server inside others: express, fastify, hono and node:http, each under a path of its own.

import { createServer as createHttpServer, type Server as HttpServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, type Holdfast } from '../../src/index.js'
import { createServer, type Server, type ServerOptions } from '../../src/server/index.js'
import { DASHBOARD, TOKEN } from './support.js'

let holdfast: Holdfast

beforeAll(async () => {
  holdfast = await connect('memory:', { upkeep: false })
})

afterAll(() => holdfast.close())

const create = (options: ServerOptions = {}) =>
  createServer(holdfast, { token: TOKEN, dashboard: DASHBOARD, ...options })

interface Mounted {
  readonly server: Server
  readonly port: number
  close(): Promise<void>
}

async function start(listener: RequestListener | HttpServer, server: Server): Promise<Mounted> {
  const http = typeof listener === 'function' ? createHttpServer(listener) : listener
  if (!http.listening) await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    server,
    port: (http.address() as AddressInfo).port,
    close: async () => {
      await server.close()
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}

const MOUNTS: Readonly<Record<string, () => Promise<Mounted>>> = {
  express: async () => {
    const server = create()
    const app = express()
    app.use('/inside/queue', server.toNodeHandler())
    return start(app, server)
  },
  'express behind a body parser': async () => {
    const server = create()
    const app = express()
    app.use(express.json())
    app.use('/inside/queue', server.toNodeHandler())
    return start(app, server)
  },
  'a router of express': async () => {
    const server = create()
    const router = express.Router()
    router.use('/queue', server.toNodeHandler())
    return start(express().use('/inside', router), server)
  },
  fastify: async () => {
    const server = create({ basePath: '/inside/queue' })
    const handler = server.toNodeHandler()
    const app = fastify()
    await app.register(async (scope) => {
      // The body is left for us to read.
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
      scope.all('/inside/queue/*', (request, reply) => {
        reply.hijack()
        handler(request.raw, reply.raw)
      })
    })
    await app.ready()
    return start(app.server, server)
  },
  hono: async () => {
    const server = create({ basePath: '/inside/queue' })
    const app = new Hono()
    app.mount('/inside/queue', server.fetch)
    return startHono(app, server)
  },
  'hono with the address left whole': async () => {
    const server = create({ basePath: '/inside/queue' })
    const app = new Hono()
    app.all('/inside/queue/*', (context) => server.fetch(context.req.raw, context.env))
    return startHono(app, server)
  },
  'node:http': async () => {
    const server = create({ basePath: '/inside/queue' })
    const handler = server.toNodeHandler()
    return start((request, response) => handler(request, response), server)
  },
}

async function startHono(app: Hono, server: Server): Promise<Mounted> {
  const http = await new Promise<HttpServer>((resolve) => {
    const started = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false }, () =>
      resolve(started as HttpServer),
    )
  })
  return start(http, server)
}

describe.each(Object.keys(MOUNTS))('in %s', (name) => {
  let mounted: Mounted
  const url = (path: string) => `http://127.0.0.1:${mounted.port}/inside/queue${path}`
  const authorization = `Bearer ${TOKEN}`

  beforeAll(async () => {
    mounted = await MOUNTS[name]!()
  })

  afterAll(() => mounted.close())

  test('a job is enqueued and read', async () => {
    const body = JSON.stringify({ type: 'send_email', payload: { to: 'ada' }, queue: 'a/b' })
    const headers = { authorization, 'content-type': 'application/json' }

    const enqueued = await fetch(url('/v1/jobs'), { method: 'POST', headers, body })
    const { id } = (await enqueued.json()) as { id: string }

    expect(enqueued.status).toBe(201)
    const seen = await fetch(url(`/v1/jobs/${id}`), { headers })
    expect(await seen.json()).toMatchObject({ id, type: 'send_email', payload: { to: 'ada' } })
    expect((await fetch(url('/v1/queues/a%2Fb'), { headers })).status).toBe(200)
    expect((await fetch(url(`/v1/jobs/${id}/cancel`), { method: 'POST', headers, body: '{}' })).status).toBe(200)
  })

  test('the page knows its mount path, and its files are found', async () => {
    const page = await fetch(url('/jobs/some-id'))

    expect(await page.text()).toContain('<base href="/inside/queue/" />')
    expect(page.headers.get('content-security-policy')).toContain("base-uri 'self'")
    expect((await fetch(url('/assets/page-1a2b.js'))).headers.get('content-type')).toContain('text/javascript')
  })

  test('signing in redirects to it, with a cookie for its path only', async () => {
    const answered = await fetch(url(`/?token=${mounted.server.createToken()}`), { redirect: 'manual' })

    expect([answered.status, answered.headers.get('location')]).toEqual([303, '/inside/queue/'])
    expect(answered.headers.get('set-cookie')).toContain('Path=/inside/queue;')
    const cookie = answered.headers.get('set-cookie')!.split(';')[0]!
    expect((await fetch(url('/v1/me'), { headers: { cookie } })).status).toBe(200)
  })

  test('events flow', async () => {
    const answered = await fetch(url('/v1/events'), { headers: { authorization } })
    const reader = answered.body!.getReader()
    let text = ''
    while (!text.includes('event: overview')) text += Buffer.from((await reader.read()).value!).toString()
    await reader.cancel()

    expect(answered.headers.get('content-type')).toBe('text/event-stream')
    expect(text).toContain('"queues":[')
  })

  test('strangers, other sites and other hosts are refused', async () => {
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"type":"x"}' }
    expect((await fetch(url('/v1/jobs'))).status).toBe(401)
    expect((await fetch(url('/v1/jobs'), post)).status).toBe(403)
    expect((await fetch(url('/v1/nothing'), { headers: { authorization } })).status).toBe(404)
    const foreign = await fetch(url('/healthz').replace('127.0.0.1', '127.0.0.2')).catch(() => null)
    expect(foreign?.status ?? 421).toBe(421)
  })

  test('a body that is too large is refused', async () => {
    const body = JSON.stringify({ type: 'x', payload: 'y'.repeat(1024 * 1024) })
    const headers = { authorization, 'content-type': 'application/json' }

    const answered = await fetch(url('/v1/jobs'), { method: 'POST', headers, body })

    expect(answered.status).toBe(413)
  })
})

test('outside the base path node:http gets a 404', async () => {
  const mounted = await MOUNTS['node:http']!()
  try {
    for (const path of ['/', '/healthz', '/inside', '/inside/queues', '/inside/queue/../healthz']) {
      expect((await fetch(`http://127.0.0.1:${mounted.port}${path}`)).status).toBe(404)
    }
    expect((await fetch(`http://127.0.0.1:${mounted.port}/inside/queue`)).status).toBe(200)
  } finally {
    await mounted.close()
  }
})
