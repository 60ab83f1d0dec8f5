// ctx.write and holdfast.read: output that readers follow while the job runs, and afterwards.

import { expect, test } from 'vitest'
import { defineJob, type JobContext, RetryJob } from '../../src/index.js'
import { failure, onStores } from './stores.js'

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  let names = 0
  const newJob = () => defineJob<null, unknown>(`output_${++names}`, { maxAttempts: 3 })

  async function readAll(id: string, from = 0): Promise<string[]> {
    const texts: string[] = []
    for await (const { text } of queue().holdfast.read(id, { from })) texts.push(text)
    return texts
  }

  test('a reader gets what a job writes while it runs, and ends with it', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    let goOn!: () => void
    const halfway = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const handler = job.handle(async (_payload, { write }) => {
      await write('one ')
      await halfway
      // Not awaited: the job ends after its output has arrived.
      for (const word of ['two ', 'three']) void write(word)
    })

    const texts = await working([handler], async () => {
      const { id } = await holdfast.enqueue(job, null)
      const seen: string[] = []
      for await (const { text } of holdfast.read(id)) {
        seen.push(text)
        if (seen.length === 1) {
          expect((await holdfast.get(id))!.state).toBe('running')
          goOn()
        }
      }
      expect(await readAll(id)).toEqual(seen)
      return seen
    })

    expect(texts).toEqual(['one ', 'two ', 'three'])
  })

  test('a reader that connects again a hundred times gets each piece once and in order', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const handler = job.handle(async (_payload, ctx) => {
      for (let n = 0; n < 400; n++) {
        const written = ctx.write(`${n};`)
        if (n % 40 === 39) await written
      }
    })

    const [texts, connections] = await working([handler], async () => {
      const { id } = await holdfast.enqueue(job, null)
      const seen: string[] = []
      let [from, count] = [0, 0]
      for (let isOver = false; !isOver; count++) {
        isOver = true
        let taken = 0
        for await (const { text, next } of holdfast.read(id, { from })) {
          seen.push(text)
          from = next
          if (++taken < 4) continue
          isOver = false
          break
        }
      }
      return [seen, count] as const
    })

    expect(texts.join('')).toBe(Array.from({ length: 400 }, (_, n) => `${n};`).join(''))
    expect(connections).toBeGreaterThanOrEqual(100)
  })

  test('output of an attempt that failed stays, and the next one goes on behind it', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const handler = job.handle(async (_payload: null, ctx: JobContext) => {
      void ctx.write(`attempt ${ctx.attempt};`)
      if (ctx.attempt < 3) throw new RetryJob('once more', { delay: 0 })
    })

    const pieces = await working([handler], async () => {
      const { id } = await holdfast.enqueue(job, null)
      const all = []
      for await (const piece of holdfast.read(id)) all.push(piece)
      return all
    })

    expect(pieces.map(({ text, attempt }) => [text, attempt])).toEqual([
      ['attempt 1;', 1],
      ['attempt 2;', 2],
      ['attempt 3;', 3],
    ])
    expect(pieces[2]!.offset).toBe(pieces[1]!.next)
  })

  test('a reader is ended by its signal', async () => {
    const { holdfast } = queue()
    const { id } = await holdfast.enqueue(newJob(), null)
    const ending = new AbortController()
    const reading = (async () => {
      for await (const _ of holdfast.read(id, { signal: ending.signal })) throw new Error('there is no output')
    })()

    ending.abort()

    await reading
  })

  test('bad output and bad readers are refused', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const codeOf = async (call: Promise<unknown>) => ((await failure(call)) as { code: string }).code
    const handler = job.handle(async (_payload, ctx) => [
      await codeOf(ctx.write(7 as never)),
      await codeOf(ctx.write('x'.repeat(64 * 1024 + 1))),
      await ctx.write(''),
      await Promise.all(Array.from({ length: 128 }, () => ctx.write('x'.repeat(64 * 1024)))).then(() => 'full'),
      await codeOf(ctx.write('x')),
    ])

    const [id, result] = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, null)
      return [handle.id, await handle.wait({ timeout: '30s' })]
    })

    expect(result).toEqual(['invalid_option', 'invalid_option', null, 'full', 'kept_full'])
    expect(await codeOf(readAll('01900000-0000-7000-8000-00000000ffff'))).toBe('job_not_found')
    expect(() => holdfast.read('nothing')).toThrow('must be a job id')
    expect(() => holdfast.read(id as string, { from: -1 })).toThrow('from must be a whole number')
    expect(() => holdfast.read(id as string, { form: 1 } as never)).toThrow('form')
  })
})
