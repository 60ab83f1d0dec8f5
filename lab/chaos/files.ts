// The files of a run: each process's records, one line each, and the whole history in one file.

import { createWriteStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { HistoryEvent, ProcessEvent } from '../history/events.js'

/** The records of all processes of a run. The last line of a killed process may be incomplete and is ignored. */
export async function readRecords(folder: string): Promise<ProcessEvent[]> {
  const records: ProcessEvent[] = []
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.jsonl')) continue
    const lines = (await readFile(join(folder, name), 'utf8')).split('\n')
    for (const line of lines.slice(0, -1)) records.push(JSON.parse(line) as ProcessEvent)
  }
  return records
}

/** Writes the whole history, compressed. */
export async function writeHistory(folder: string, events: readonly HistoryEvent[]): Promise<void> {
  const lines = function* () {
    for (const event of events) yield `${JSON.stringify(event)}\n`
  }
  await pipeline(Readable.from(lines()), createGzip({ level: 1 }), createWriteStream(join(folder, 'history.jsonl.gz')))
}
