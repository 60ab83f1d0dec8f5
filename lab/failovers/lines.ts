// What the processes of a run of failovers write down, line by line, so that it survives a kill.

import { readFile } from 'node:fs/promises'

export type AcceptedKind = 'plain' | 'batch' | 'keyed' | 'delayed' | 'failing' | 'child'

/** A producer was told that its job is accepted. */
export interface AcceptedLine {
  readonly id: string
  readonly kind: string
  readonly atMs: number
}

/** A handler began, or ended. */
export interface RunLine {
  readonly id: string
  readonly attempt: number
  /** The schedule and its tick, null for other jobs. */
  readonly tick: string | null
  readonly atMs: number
}

export interface PartyLines {
  readonly accepted: readonly AcceptedLine[]
  readonly began: readonly RunLine[]
  /** Runs that ended well. */
  readonly succeeded: readonly RunLine[]
}

/** Reads what one process has written from this byte on, and where the next reading begins. */
export async function readLines(
  path: string,
  from: number,
): Promise<{ readonly lines: PartyLines; readonly next: number }> {
  const bytes = await readFile(path)
  // The last line of a killed process may be incomplete.
  const end = bytes.lastIndexOf('\n') + 1
  const text = bytes.subarray(from, Math.max(from, end)).toString('utf8')
  return { lines: parseLines(text), next: Math.max(from, end) }
}

/** The lines of a text, by what they say. */
export function parseLines(text: string): PartyLines {
  const accepted: AcceptedLine[] = []
  const began: RunLine[] = []
  const succeeded: RunLine[] = []
  for (const line of text.split('\n')) {
    const [mark, id, ...rest] = line.split(' ')
    if (mark === 'accepted') accepted.push({ id: id!, kind: rest[0]!, atMs: Number(rest[1]) })
    if (mark === 'began') {
      began.push({ id: id!, attempt: Number(rest[0]), tick: rest[1] === '-' ? null : rest[1]!, atMs: Number(rest[2]) })
    }
    if (mark === 'ended' && rest[1] === 'succeeded') {
      succeeded.push({ id: id!, attempt: Number(rest[0]), tick: null, atMs: Number(rest[2]) })
    }
  }
  return { accepted, began, succeeded }
}
