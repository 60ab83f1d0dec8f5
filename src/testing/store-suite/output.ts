// Output of running jobs, read from any place on.

import type { OutputChunk } from '../../core/kept/kept.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { newId, retrying, SECOND_MS, stale, succeeded } from './samples.js'
import { claimJob, enqueueJob, startJob } from './steps.js'

/** Everything from an offset on, page after page. */
async function readAll(store: Store, id: string, from = 0): Promise<readonly OutputChunk[]> {
  const all: OutputChunk[] = []
  for (let at = from; ; at = all.at(-1)!.next) {
    const page = await store.read({ id, from: at })
    all.push(...page!.chunks)
    if (page!.chunks.length === 0) return all
  }
}

export const outputFacts: Facts = {
  'output is read in order, each piece with its offset, attempt and time': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    expect(await store.write([{ ...job, offset: 0, chunks: ['one', 'two'] }])).toEqual([true])
    await store.write([{ ...job, offset: 6, chunks: ['😀'] }])
    const at = new Date(clock.now())

    expect(await store.read({ id: job.id, from: 0 })).toEqual({
      chunks: [
        { offset: 0, next: 3, text: 'one', attempt: 1, at },
        { offset: 3, next: 6, text: 'two', attempt: 1, at },
        { offset: 6, next: 8, text: '😀', attempt: 1, at },
      ],
      isOver: false,
    })
  },

  'a reader goes on where it was, also within what was written together': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.write([{ ...job, offset: 0, chunks: ['one', 'two', 'three'] }])
    await store.write([{ ...job, offset: 11, chunks: ['four'] }])

    const texts = async (from: number) => (await store.read({ id: job.id, from }))!.chunks.map(({ text }) => text)

    expect(await texts(3)).toEqual(['two', 'three', 'four'])
    expect(await texts(11)).toEqual(['four'])
    expect(await texts(15)).toEqual([])
  },

  'output is over when its job has finished, and not while it retries': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.write([{ ...job, offset: 0, chunks: ['one'] }])
    await store.settle([retrying(job)])
    expect((await store.read({ id: job.id, from: 3 }))!.isOver).toBe(false)
    await clock.advance(SECOND_MS)
    await store.promote(10)
    const again = await claimJob(store)
    expect((await store.recall(again))!.outputEnd).toBe(3)

    await store.write([{ ...again, offset: 3, chunks: ['two'] }])
    await store.settle([succeeded(again)])

    const page = (await store.read({ id: job.id, from: 0 }))!
    expect(page.chunks.map(({ text, attempt }) => [text, attempt])).toEqual([
      ['one', 1],
      ['two', 2],
    ])
    expect(page.isOver).toBe(true)
  },

  'output that is written again changes nothing': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.write([{ ...job, offset: 0, chunks: ['one'] }])

    expect(await store.write([{ ...job, offset: 0, chunks: ['one'] }])).toEqual([true])

    expect(await readAll(store, job.id)).toHaveLength(1)
  },

  'a lost lease writes no output, and each of several is answered by itself': async ({ store, expect }) => {
    const [one, other] = [await startJob(store), await startJob(store)]

    const answers = await store.write([
      { ...stale(one), offset: 0, chunks: ['lost'] },
      { ...other, offset: 0, chunks: ['kept'] },
    ])

    expect(answers).toEqual([false, true])
    expect(await readAll(store, one.id)).toEqual([])
    expect((await readAll(store, other.id)).map(({ text }) => text)).toEqual(['kept'])
  },

  'long output is read page after page, and none of it twice': async ({ store, expect }) => {
    const job = await startJob(store)
    let offset = 0
    for (let row = 0; row < 30; row++) {
      const chunks = [`${row}:`.padEnd(20_000, 'x'), `${row}.`]
      await store.write([{ ...job, offset, chunks }])
      offset += chunks.join('').length
    }

    const first = (await store.read({ id: job.id, from: 0 }))!
    expect(first.isOver).toBe(false)
    expect(first.chunks.length < 60).toBe(true)
    const all = await readAll(store, job.id)
    expect(all).toHaveLength(60)
    expect(all.map(({ text }) => text).join('').length).toBe(offset)
    expect(all.every((chunk, index) => index === 0 || chunk.offset === all[index - 1]!.next)).toBe(true)
  },

  'output may hold any text': async ({ store, expect }) => {
    const job = await startJob(store)
    const chunks = ['\u0000', '\ud800', '"\\{}\n', "'", '😀']
    await store.write([{ ...job, offset: 0, chunks }])

    expect((await readAll(store, job.id)).map(({ text }) => text)).toEqual(chunks)
  },

  'a job without output has none, and one that does not exist is none': async ({ store, expect }) => {
    expect(await store.read({ id: await enqueueJob(store), from: 0 })).toEqual({ chunks: [], isOver: false })
    expect(await store.read({ id: newId(), from: 0 })).toBe(null)
  },
}
