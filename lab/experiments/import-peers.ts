// The other queues as the import's experiment and tests use them: processes on a newer Node that fill a queue or work on it.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ImportSystem } from '../../src/import/contract.js'
import { Child } from '../bench/children.js'

/** What a queue is filled with. The payload of each job is { n }: those that wait are the first, then the delayed, then the failed. */
export interface PeerFill {
  readonly waiting: number
  readonly delayed: number
  readonly failed: number
  readonly delayMs: number
  /** Also a schedule. */
  readonly schedule: boolean
  /** One of ten has a priority. */
  readonly edge: boolean
}

export interface PeerAssignment {
  readonly system: ImportSystem
  /** Of PostgreSQL; '' for BullMQ. */
  readonly url: string
  readonly schema: string
  readonly redisPort: number
  readonly queue: string
  readonly slots: number
  readonly runMs: number
  /** Fills the queue and ends; null works on it. */
  readonly fill: PeerFill | null
  /** Where a worker writes the number of each job that it begins, each on a line. */
  readonly record: string
}

const DEADLINE_MS = 1_800_000
const NODE_MIN: readonly [number, number] = [22, 18]

/** A Node on which the newest versions of the other queues run: this one, or that of lab/toolbox. Null where there is none. */
export function nodeForPeers(root: string): string | null {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return process.execPath
  const path = join(root, 'lab/toolbox/node_modules', `node-24-${process.platform}-${process.arch}`, 'bin/node')
  return existsSync(path) ? path : null
}

/** Starts the processes of one queue. `module` is the built import-peer-child.js. */
export class PeerProcesses {
  readonly #module: URL
  readonly #node: string
  readonly #assignment: Omit<PeerAssignment, 'fill'>
  readonly #workers: Child[] = []

  constructor(module: URL, node: string, assignment: Omit<PeerAssignment, 'fill'>) {
    this.#module = module
    this.#node = node
    this.#assignment = assignment
  }

  async fill(fill: PeerFill): Promise<void> {
    const child = this.#start({ ...this.#assignment, fill })
    await child.hear('filled')
  }

  /** Starts a worker, and resolves when it works. */
  async work(): Promise<void> {
    const child = this.#start({ ...this.#assignment, fill: null })
    this.#workers.push(child)
    await child.hear('ready')
  }

  /** Lets the workers end what they run. */
  async stop(): Promise<void> {
    const stop = async (worker: Child) => {
      worker.send({ kind: 'stop' })
      await worker.ended()
    }
    await Promise.all(this.#workers.splice(0).map(stop))
  }

  /** The numbers of the jobs that were begun. */
  begun(): readonly number[] {
    return numbersOf(this.#assignment.record)
  }

  #start(assignment: PeerAssignment): Child {
    return new Child(this.#module, assignment, {
      name: `a process of ${assignment.system}`,
      deadlineMs: DEADLINE_MS,
      node: this.#node,
    })
  }
}

/** The numbers in a record; empty where there is none. */
function numbersOf(record: string): readonly number[] {
  if (!existsSync(record)) return []
  return readFileSync(record, 'utf8').split('\n').filter(Boolean).map(Number)
}
