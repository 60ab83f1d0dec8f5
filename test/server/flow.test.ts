// Limits, breakers and groups over HTTP, and jobs that name them.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { finish } from '../client/support.js'
import { type Answered, TestServer } from './support.js'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open()
})

afterAll(() => server.close())

const get = (path: string) => server.admin('GET', path)
const post = (path: string, body: unknown = {}) => server.admin('POST', path, { body })
const put = (path: string, body: unknown) => server.admin('PUT', path, { body })
const patch = (path: string, body: unknown) => server.admin('PATCH', path, { body })
const refusal = ({ status, json }: Answered) => [status, json.code]

describe('limits', () => {
  test('a limit is set, shown with what counts in it, changed and removed', async () => {
    const made = await put('/v1/limits/mailer', {
      concurrency: 20,
      rate: { limit: 10, per: '1m', burst: 5, counts: 'cost' },
      breaker: { failures: 0.25, of: 4, within: '1m', cooldown: '5s', cooldownMax: '20s', probes: 2 },
    })
    await server.holdfast.enqueue('send', null, { queue: 'mails', limits: ['mailer'] })
    await server.holdfast.enqueue('send', null, { queue: 'mails', limits: ['mailer'] })
    await server.store.claim({ queues: [{ queue: 'mails', limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 })

    expect(made.status).toBe(200)
    expect((await get('/v1/limits/mailer')).json).toMatchObject({
      name: 'mailer',
      origin: 'operator',
      concurrency: 20,
      adaptive: null,
      rate: { limit: 10, perMs: 60_000, burst: 5, counts: 'cost' },
      tokens: 4,
      running: 1,
      breaker: {
        position: 'closed',
        since: null,
        settings: { failures: 0.25, of: 4, withinMs: 60_000, cooldownMs: 5_000, cooldownMaxMs: 20_000, probes: 2 },
        history: [],
      },
      users: [{ queue: 'mails', limits: ['mailer'], ready: 1 }],
    })
    expect((await put('/v1/limits/mailer', { concurrency: { min: 2, max: 8 }, rate: null })).json).toMatchObject({
      concurrency: null,
      adaptive: { min: 2, max: 8 },
      level: 2,
      rate: null,
      breaker: null,
    })
    expect(refusal(await server.admin('DELETE', '/v1/limits/mailer'))).toEqual([409, 'limit_in_use'])
    await put('/v1/limits/unused', {})
    expect((await server.admin('DELETE', '/v1/limits/unused')).status).toBe(204)
    expect(refusal(await get('/v1/limits/unused'))).toEqual([404, 'limit_not_found'])
  })

  test('limits are listed in pages by name, and by the beginning of their names', async () => {
    for (const name of ['page:a', 'page:b', 'page:c']) await put(`/v1/limits/${name}`, {})
    const names = (answered: Answered) => answered.json.limits.map(({ name }: { name: string }) => name)

    const first = await get('/v1/limits?prefix=page:&limit=2')
    const second = await get(`/v1/limits?prefix=page:&limit=2&cursor=${first.json.cursor}`)

    expect([names(first), first.json.cursor]).toEqual([['page:a', 'page:b'], 'page:b'])
    expect([names(second), second.json.cursor]).toEqual([['page:c'], null])
    expect(names(await get('/v1/limits?prefix=nothing'))).toEqual([])
  })

  test('a breaker is held open, held closed, and left to itself', async () => {
    await put('/v1/limits/held', { breaker: {} })

    expect((await post('/v1/limits/held/open')).json.breaker).toMatchObject({ position: 'open', forced: 'open' })
    expect((await post('/v1/limits/held/close')).json.breaker).toMatchObject({ position: 'closed', forced: 'closed' })
    expect((await post('/v1/limits/held/release')).json.breaker).toMatchObject({ position: 'closed', forced: null })
    const audit = (await get('/v1/audit?action=force%20breaker&limit=3')).json.entries
    expect(audit.map(({ actor, target }: { actor: string; target: string }) => [actor, target])).toEqual(
      Array.from({ length: 3 }, () => ['admin', 'held']),
    )
  })

  test('what is wrong with a limit is said', async () => {
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [{ concurrency: 0 }, /concurrency must be a whole number/],
      [{ concurrency: 1.5 }, /body\.concurrency/],
      [{ concurrency: { min: 5, max: 2 } }, /concurrency\.max/],
      [{ rate: '100 a second' }, /rate must be such as '100\/s'/],
      [{ rate: { limit: 5 } }, /body\.rate/],
      [{ breaker: { failures: 2 } }, /failures must be a number above 0 and up to 1/],
      [{ breaker: { cooldown: '2 weeks' } }, /cooldown/],
      [{ concurency: 5 }, /body: .*concurency/],
    ]

    for (const [body, text] of wrong) {
      const { status, json } = await put('/v1/limits/wrong', body)
      expect([status, json.code, json.detail]).toEqual([400, 'invalid_option', expect.stringMatching(text)])
    }
    expect(refusal(await put('/v1/limits/queue:mails', {}))).toEqual([400, 'invalid_name'])
    expect(refusal(await put(`/v1/limits/${encodeURIComponent('no blanks')}`, {}))).toEqual([400, 'invalid_name'])
    for (const verb of ['open', 'close', 'release']) {
      expect(refusal(await post(`/v1/limits/absent/${verb}`))).toEqual([404, 'limit_not_found'])
    }
    expect(refusal(await server.admin('DELETE', '/v1/limits/absent'))).toEqual([404, 'limit_not_found'])
    expect((await get('/v1/limits?limit=0')).status).toBe(400)
    expect((await get('/v1/limits?limit=201')).status).toBe(400)
    expect((await get('/v1/limits?sort=name')).status).toBe(400)
  })
})

describe('groups', () => {
  const NAMES = ['a/b', 'a/../b', '..', '.', '%2e%2e', '100%', 'ü 漢字 🐟', '?q=1#x', 'pause', '-', '+ &=', '"<b>']

  function pathOf(group: string, verb = ''): string {
    const isDots = group === '.' || group === '..'
    const path = `/v1/queues/orders/groups/${isDots ? '-' : encodeURIComponent(group)}${verb}`
    return isDots ? `${path}?group=${group}` : path
  }

  test.each(NAMES)('the name %j survives the path', async (group) => {
    const set = await put(pathOf(group), { concurrency: 4, weight: 2 })
    const paused = await post(pathOf(group, '/pause'))
    const found = (await get(`/v1/queues/orders/groups?prefix=${encodeURIComponent(group)}&limit=1`)).json.groups[0]
    const resumed = await post(pathOf(group, '/resume'))
    const removed = await server.admin('DELETE', pathOf(group))

    expect([set.status, set.json]).toEqual([
      200,
      { group, ready: 0, running: 0, paused: false, stoppedBy: null, until: null, override: expect.anything() },
    ])
    expect(set.json.override).toEqual({ concurrency: 4, rate: null, weight: 2 })
    expect(paused.json).toMatchObject({ group, paused: true })
    expect(found).toMatchObject({ group, paused: true })
    expect(resumed.json).toMatchObject({ group, paused: false })
    expect(removed.status).toBe(204)
    expect((await server.holdfast.groups('orders')).groups).toEqual([])
  })

  test('groups are listed in pages, with their jobs', async () => {
    for (const group of ['g1', 'g2', 'g2', 'h']) await server.holdfast.enqueue('x', null, { queue: 'paged', group })

    const first = await get('/v1/queues/paged/groups?limit=2')
    const second = await get(`/v1/queues/paged/groups?limit=2&cursor=${first.json.cursor}`)

    expect(first.json).toMatchObject({
      groups: [
        { group: 'g1', ready: 1 },
        { group: 'g2', ready: 2 },
      ],
      cursor: 'g2',
    })
    expect(second.json).toMatchObject({ groups: [{ group: 'h' }], cursor: null })
    expect((await get('/v1/queues/paged/groups?prefix=g')).json.groups).toHaveLength(2)
  })

  test('what is wrong with a group is said', async () => {
    expect((await put('/v1/queues/orders/groups/a', { concurrency: 0 })).status).toBe(400)
    expect((await put('/v1/queues/orders/groups/a', { weight: 1_001 })).status).toBe(400)
    expect((await put('/v1/queues/orders/groups/a', { ordered: true })).status).toBe(400)
    expect((await put(`/v1/queues/orders/groups/${'x'.repeat(201)}`, {})).status).toBe(400)
    expect((await put('/v1/queues/orders/groups/a%00b', {})).status).toBe(400)
    expect(refusal(await put('/v1/queues/no%20blanks/groups/a', {}))).toEqual([400, 'invalid_name'])
    expect((await get('/v1/queues/orders/groups?limit=201')).status).toBe(400)
    expect((await server.holdfast.groups('orders')).groups).toEqual([])
  })
})

describe('settings of a queue', () => {
  const flow = async () => (await server.holdfast.queues()).find(({ name }) => name === 'shaped')?.settings.flow

  test('flow control is set, stays when a change says nothing about it, and is taken away with null', async () => {
    const set = await patch('/v1/queues/shaped', {
      maxAttempts: 3,
      concurrency: 5,
      rate: '10/s',
      maxDepth: 100,
      onFull: 'wait',
      aging: '1m',
      groups: { ordered: true, onDead: 'stop', concurrency: null },
    })

    expect(set.json.settings.flow).toMatchObject({
      concurrency: 5,
      rate: { limit: 10, perMs: 1_000 },
      maxDepth: 100,
      onFull: 'wait',
      agingMs: 60_000,
      groups: { ordered: true, onRetry: 'wait', onDead: 'stop', concurrency: null },
    })
    expect((await patch('/v1/queues/shaped', { maxAttempts: 4 })).json.settings).toMatchObject({
      limits: { maxAttempts: 4 },
      flow: { concurrency: 5 },
    })
    expect((await patch('/v1/queues/shaped', { concurrency: 7 })).json.settings.flow).toMatchObject({
      concurrency: 7,
      rate: null,
      maxDepth: null,
      groups: { ordered: false },
    })
    expect((await patch('/v1/queues/shaped', { concurrency: null })).json.settings).toEqual({ limits: {} })
    expect(await flow()).toBeUndefined()
    expect((await get('/v1/queues/shaped')).json.settings).toEqual({ limits: {} })
  })

  test('what is wrong with it is said, and nothing is changed', async () => {
    const wrong = [
      { concurrency: -1 },
      { groups: { ordered: true, concurrency: 2 } },
      { groups: { onDead: 'stop' } },
      { onFull: 'drop' },
      { maxDepth: 0 },
      { aging: 'soon' },
      { groups: { depth: 3 } },
    ]

    for (const body of wrong) expect([body, (await patch('/v1/queues/shaped', body)).status]).toEqual([body, 400])
    expect(await flow()).toBeUndefined()
  })
})

describe('jobs', () => {
  test('a job says its group, limits and cost, and is shown with them', async () => {
    await put('/v1/limits/ledger', { concurrency: 1 })
    const body = { type: 'pay', queue: 'till', group: 'acme', limits: ['ledger'], cost: 7 }

    const { json } = await post('/v1/jobs', body)
    const batch = await post('/v1/jobs/batch', { jobs: [body, { type: 'plain', queue: 'till' }] })

    expect((await get(`/v1/jobs/${json.id}`)).json.flow).toEqual({ group: 'acme', limits: ['ledger'], cost: 7 })
    expect((await get(`/v1/jobs/${batch.json.jobs[1].id}`)).json.flow).toBeUndefined()
    const listed = (await get('/v1/jobs?filter=queue:till')).json.jobs
    expect(listed.map(({ flow }: { flow?: { group: string } }) => flow?.group)).toEqual([undefined, 'acme', 'acme'])
  })

  test('a job shows its limits, and who is before and after it in its group', async () => {
    await put('/v1/limits/narrow', { concurrency: 1 })
    const ids: string[] = []
    for (let index = 0; index < 4; index++) {
      const options = { queue: 'line', group: 'g', limits: ['narrow'] }
      ids.push((await server.holdfast.enqueue(`step-${index}`, null, options)).id)
    }
    await server.store.claim({ queues: [{ queue: 'line', limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 })

    const { json } = await get(`/v1/jobs/${ids[2]}/flow`)

    expect(json.flow).toEqual({ group: 'g', limits: ['narrow'], cost: 1 })
    expect(json.group.neighbours).toEqual({
      running: [{ id: ids[0], type: 'step-0' }],
      before: [{ id: ids[1], type: 'step-1' }],
      after: [{ id: ids[3], type: 'step-3' }],
    })
    expect(json.limits).toMatchObject([{ name: 'narrow', running: 1, concurrency: 1, waitMs: 0 }])
    const explained = (await get(`/v1/jobs/${ids[2]}/explain`)).json
    expect(explained.reasons.map(({ code }: { code: string }) => code)).toContain('limit_full')
    expect(refusal(await get('/v1/jobs/00000000-0000-7000-8000-000000000000/flow'))).toEqual([404, 'job_not_found'])
  })

  test('a plain job has no flow control', async () => {
    const { id } = await server.holdfast.enqueue('plain', null, { queue: 'plain' })

    expect((await get(`/v1/jobs/${id}/flow`)).json).toMatchObject({ flow: null, group: null })
  })

  test('a full queue and a full group answer 429 with Retry-After', async () => {
    await patch('/v1/queues/narrow', { maxDepth: 2, groups: { maxDepth: 1 } })
    await post('/v1/jobs', { type: 'x', queue: 'narrow', group: 'a' })

    const group = await post('/v1/jobs', { type: 'x', queue: 'narrow', group: 'a' })
    await post('/v1/jobs', { type: 'x', queue: 'narrow', group: 'b' })
    const queue = await post('/v1/jobs', { type: 'x', queue: 'narrow' })
    const batch = await post('/v1/jobs/batch', { jobs: [{ type: 'x', queue: 'narrow' }] })

    expect(refusal(group)).toEqual([429, 'group_full'])
    expect(group.json).toMatchObject({ queue: 'narrow', group: 'a', maxDepth: 1 })
    expect(refusal(queue)).toEqual([429, 'queue_full'])
    expect(refusal(batch)).toEqual([429, 'queue_full'])
    for (const { headers } of [group, queue, batch]) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  })

  test('an enqueue that waits for room is answered when there is some', async () => {
    await patch('/v1/queues/slow', { maxDepth: 1 })
    await post('/v1/jobs', { type: 'x', queue: 'slow' })

    const waiting = post('/v1/jobs', { type: 'x', queue: 'slow', onFull: 'wait' })
    await finish(server.store, 'slow', { state: 'succeeded' })

    expect((await waiting).status).toBe(201)
  })

  test('debounce, replace and throttle give the id of the job that runs, and say whether it took the payload', async () => {
    const key = 'doc:7'
    const add = async (body: object) => {
      const { status, json } = await post('/v1/jobs', { type: 'index', queue: 'docs', ...body })
      return [status, json.created, json.replaced]
    }

    expect(await add({ payload: 1, replace: { key } })).toEqual([201, true, undefined])
    expect(await add({ payload: 2, replace: { key } })).toEqual([200, false, true])
    expect(await add({ payload: 3, debounce: { key, wait: '5s', maxWait: '1m' } })).toEqual([200, false, true])
    expect(await add({ throttle: { key: 'other', for: '1h' } })).toEqual([201, true, undefined])
    expect(await add({ throttle: { key: 'other', for: '1h' } })).toEqual([200, false, undefined])
  })

  test('what is wrong with a job is said', async () => {
    const wrong: readonly (readonly [object, number, string])[] = [
      [{ limits: ['nobody-set-it'] }, 422, 'limit_unknown'],
      [{ limits: ['queue:till'] }, 400, 'invalid_name'],
      [{ limits: ['a', 'b', 'c', 'd', 'e'] }, 400, 'invalid_option'],
      [{ group: '' }, 400, 'invalid_option'],
      [{ group: 'a\u0000' }, 400, 'invalid_option'],
      [{ group: 'x'.repeat(201) }, 400, 'invalid_option'],
      [{ cost: -1 }, 400, 'invalid_option'],
      [{ onFull: 'drop' }, 400, 'invalid_option'],
      [{ debounce: { key: 'k' } }, 400, 'invalid_option'],
      [{ replace: { key: 'k' }, throttle: { key: 'k', for: '1s' } }, 400, 'invalid_option'],
    ]

    for (const [body, status, code] of wrong) {
      const answered = await post('/v1/jobs', { type: 'x', queue: 'till', ...body })
      expect([body, ...refusal(answered)]).toEqual([body, status, code])
    }
    const together = await post('/v1/jobs/batch', { jobs: [{ type: 'x', onFull: 'wait' }] })
    expect(refusal(together)).toEqual([400, 'invalid_option'])
  })

  test('a schedule has a group and limits', async () => {
    await put('/v1/limits/nightly', {})
    const body = { cron: '0 3 * * *', type: 'report', queue: 'till', group: 'acme', limits: ['nightly'], cost: 2 }

    const set = await put('/v1/schedules/with-flow', body)

    expect(set.json.flow).toEqual({ group: 'acme', limits: ['nightly'], cost: 2 })
    expect(refusal(await put('/v1/schedules/wrong', { ...body, limits: ['absent'] }))).toEqual([422, 'limit_unknown'])
  })
})
