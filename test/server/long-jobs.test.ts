// Signals and output over HTTP: what a script or a browser does with them.

import { afterEach, beforeEach, expect, test } from 'vitest'
import { defineJob, type Handler } from '../../src/index.js'
import { TestServer, TOKEN } from './support.js'

let server: TestServer
beforeEach(async () => {
  server = await TestServer.open()
})
afterEach(() => server.close())

const talk = defineJob<null>('talk')

async function working<T>(handler: Handler, body: () => Promise<T>): Promise<T> {
  const worker = server.holdfast.worker({ handlers: [handler] })
  await worker.start()
  try {
    return await body()
  } finally {
    await worker.stop()
  }
}

interface Piece {
  readonly id: string
  readonly text: string
}

/** Reads output until it ends, or until N pieces have come. */
async function readOutput(
  id: string,
  { lastEventId, most }: { readonly lastEventId?: string; readonly most?: number } = {},
): Promise<{ readonly pieces: readonly Piece[]; readonly end: { readonly state: string } | null }> {
  const ending = new AbortController()
  const headers = {
    authorization: `Bearer ${TOKEN}`,
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
  }
  const response = await fetch(`${server.listening.url}/v1/jobs/${id}/output`, { headers, signal: ending.signal })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const reader = response.body!.getReader()
  const pieces: Piece[] = []
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return { pieces, end: null }
    text += Buffer.from(value).toString()
    for (let at = text.indexOf('\n\n'); at !== -1; at = text.indexOf('\n\n')) {
      const fields = new Map(
        text
          .slice(0, at)
          .split('\n')
          .map((line) => line.split(': ', 2) as [string, string]),
      )
      const data = /^data: (.*)$/m.exec(text.slice(0, at))?.[1]
      text = text.slice(at + 2)
      if (fields.get('event') === 'end') return { pieces, end: JSON.parse(data!) }
      if (fields.get('event') !== 'chunk') continue
      pieces.push({ id: fields.get('id')!, text: JSON.parse(data!).text })
      if (pieces.length === most) {
        ending.abort()
        return { pieces, end: null }
      }
    }
  }
}

test('a signal over HTTP lets a job go on that waits for it', async () => {
  const handler = talk.handle(async (_payload, ctx) => (await ctx.waitFor('approved')).value)

  await working(handler, async () => {
    const handle = await server.holdfast.enqueue(talk, null)
    let waits = false
    while (!waits) {
      const shown = (await server.admin('GET', `/v1/jobs/${handle.id}`)).json as { wait?: { name: string } }
      waits = shown.wait?.name === 'approved'
    }

    const sent = await server.admin('POST', `/v1/jobs/${handle.id}/signals`, {
      body: { name: 'approved', value: { by: 'ada' } },
    })

    expect([sent.status, sent.json]).toEqual([200, { id: handle.id, woken: true }])
    expect(await handle.wait({ timeout: '20s' })).toEqual({ by: 'ada' })
    const late = await server.admin('POST', `/v1/jobs/${handle.id}/signals`, { body: { name: 'approved' } })
    expect([late.status, (late.json as { code: string }).code]).toEqual([409, 'wrong_state'])
  })
})

test('output over HTTP is followed to its end, and a reader that connects again goes on behind its last event', async () => {
  const words = ['one ', 'two ', 'three ', 'four\n\n']
  const handler = talk.handle(async (_payload, { write }) => {
    for (const word of words) await write(word)
  })

  await working(handler, async () => {
    const { id } = await server.holdfast.enqueue(talk, null)
    const first = await readOutput(id, { most: 2 })
    const rest = await readOutput(id, { lastEventId: first.pieces.at(-1)!.id })

    expect([...first.pieces, ...rest.pieces].map(({ text }) => text)).toEqual(words)
    expect(rest.end).toEqual({ offset: words.join('').length, state: 'succeeded' })
  })
})

test('output of a job that is not there, and a bad place, are refused', async () => {
  const { id } = await server.holdfast.enqueue(talk, null)
  const missing = await server.admin('GET', '/v1/jobs/01900000-0000-7000-8000-00000000ffff/output')
  const response = await fetch(`${server.listening.url}/v1/jobs/${id}/output`, {
    headers: { authorization: `Bearer ${TOKEN}`, 'last-event-id': 'x' },
  })

  expect(missing.status).toBe(404)
  expect(response.status).toBe(400)
})

test('what happens to a job is followed over HTTP to its end, with its progress masked, and again from the last event on', async () => {
  const handler = talk.handle((_payload, ctx) => ctx.progress({ page: 2, password: 'hunter2' }))
  const { id } = await server.holdfast.enqueue(talk, null)
  const path = `${server.listening.url}/v1/jobs/${id}/events`
  const authorization = `Bearer ${TOKEN}`

  const text = await working(handler, async () => (await fetch(path, { headers: { authorization } })).text())
  const events = [...text.matchAll(/^(?:id: (\d+)\n)?event: (.*)\ndata: (.*)$/gm)]
  const lastId = events.find(([, , name]) => name === 'job.succeeded')![1]!
  const again = await (await fetch(path, { headers: { authorization, 'last-event-id': lastId } })).text()

  expect(events.map(([, , name]) => name)).toEqual([
    'job.enqueued',
    'job.started',
    'job.progress',
    'job.succeeded',
    'end',
  ])
  expect(JSON.parse(events[2]![3]!).progress).toEqual({ page: 2, password: '[redacted]' })
  expect(JSON.parse(events[4]![3]!)).toEqual({ state: 'succeeded' })
  expect(again).not.toContain('job.enqueued')
  expect(again).toContain('job.succeeded')
  const bad = await fetch(path, { headers: { authorization, 'last-event-id': 'x' } })
  expect(bad.status).toBe(400)
})
