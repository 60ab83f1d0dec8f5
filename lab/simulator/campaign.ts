// Runs many seeds on several threads, in order, and saves the results as it goes. An interrupted campaign continues where it stopped.

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { Worker as Thread } from 'node:worker_threads'
import type { RangeResult } from './run-seeds.js'
import { addTotals, type Failure, noTotals, type Totals } from './tally.js'

export interface CampaignOptions {
  /** The first seed. */
  readonly from: number
  readonly count: number
  readonly threads: number
  /** A file for the summary. If it holds a summary of the same seeds, that campaign is continued. */
  readonly out: string | null
  readonly onProgress?: (summary: CampaignSummary) => void
}

export interface CampaignSummary {
  readonly from: number
  readonly count: number
  /** How many seeds have run, counted from the first. */
  done: number
  /** Of this process and of the processes it continues. */
  seconds: number
  readonly totals: Totals
  readonly failures: Failure[]
}

const RANGE = 25
const FAILURES_MAX = 10
const WRITE_EVERY_MS = 10_000

/** Runs all seeds, or stops early after too many failures. */
export async function runCampaign(options: CampaignOptions): Promise<CampaignSummary> {
  const summary = openSummary(options)
  const secondsBefore = summary.seconds
  const beganMs = performance.now()
  const threads = Array.from(
    { length: Math.max(1, options.threads) },
    () => new Thread(new URL('./thread.js', import.meta.url)),
  )
  try {
    let writtenMs = beganMs
    while (summary.done < options.count && summary.failures.length < FAILURES_MAX) {
      const results = await runWave(threads, options, summary.done)
      for (const result of results) add(summary, result)
      const nowMs = performance.now()
      summary.seconds = secondsBefore + (nowMs - beganMs) / 1_000
      if (nowMs - writtenMs < WRITE_EVERY_MS) continue
      writtenMs = nowMs
      write(options, summary)
      options.onProgress?.(summary)
    }
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()))
  }
  write(options, summary)
  return summary
}

/** Several ranges for each thread, so that a slow range delays the others only at the end. */
async function runWave(
  threads: readonly Thread[],
  { from, count }: CampaignOptions,
  done: number,
): Promise<RangeResult[]> {
  const ranges = Array.from({ length: threads.length * 8 }, (_, index) => done + index * RANGE)
    .filter((start) => start < count)
    .map((start) => ({ from: from + start, count: Math.min(RANGE, count - start) }))
  const results: RangeResult[] = []
  await Promise.all(
    threads.map(async (thread) => {
      for (let range = ranges.shift(); range !== undefined; range = ranges.shift()) {
        results.push(await ask(thread, range))
      }
    }),
  )
  return results.sort((a, b) => a.from - b.from)
}

function ask(thread: Thread, range: { readonly from: number; readonly count: number }): Promise<RangeResult> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      const { from, count } = range
      reject(new Error(`the simulator broke within seeds ${from} to ${from + count - 1}`, { cause: error }))
    }
    thread.once('error', onError)
    thread.once('message', (result: RangeResult) => {
      thread.off('error', onError)
      resolve(result)
    })
    thread.postMessage(range)
  })
}

function add(summary: CampaignSummary, { count, totals, failures }: RangeResult): void {
  summary.done += count
  addTotals(summary.totals, totals)
  summary.failures.push(...failures.slice(0, FAILURES_MAX - summary.failures.length))
}

function openSummary({ from, count, out }: CampaignOptions): CampaignSummary {
  const fresh = { from, count, done: 0, seconds: 0, totals: noTotals(), failures: [] }
  if (out === null || !existsSync(out)) return fresh
  const known = JSON.parse(readFileSync(out, 'utf8')) as CampaignSummary
  if (known.from !== from)
    throw new Error(`${out} is about seeds from ${known.from} on, not ${from}: name another file`)
  return { ...known, count }
}

function write({ out }: CampaignOptions, summary: CampaignSummary): void {
  if (out === null) return
  // Written atomically: a half-written file could not be continued.
  writeFileSync(`${out}.new`, `${JSON.stringify(summary, null, 2)}\n`)
  renameSync(`${out}.new`, out)
}
