// A dependency that jobs call: an HTTP server on this machine that takes a number of calls concurrently, needs a time for each, and can be down.

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What it counted so far. */
export interface DependencyCounts {
  /** Calls it got. */
  readonly calls: number
  readonly ok: number
  /** Answered with 429, because it had as many as it takes. */
  readonly refused: number
  /** Answered with 503, because it was down. */
  readonly failed: number
  /** The calls in its hands, summed over time, in call milliseconds. */
  readonly usedMs: number
  /** What they could have been. */
  readonly capacityMs: number
}

type Word = 'calls' | 'ok' | 'refused' | 'failed'

export class Dependency {
  readonly #server: Server
  readonly #counts: Record<Word, number> = { calls: 0, ok: 0, refused: 0, failed: 0 }
  readonly #open = new Set<NodeJS.Timeout>()
  #capacity: number
  #latencyMs: number
  #isDown = false
  #usedMs = 0
  #capacityMs = 0
  #countedMs = performance.now()

  private constructor(options: { readonly capacity: number; readonly latencyMs: number }) {
    this.#capacity = options.capacity
    this.#latencyMs = options.latencyMs
    this.#server = createServer((_, response) => this.#answer(response))
    // Connections are reused for longer than the pauses of a run: one that is closed in the moment it is used would look like a failure.
    this.#server.keepAliveTimeout = 600_000
  }

  static async open(options: { readonly capacity: number; readonly latencyMs: number }): Promise<Dependency> {
    const dependency = new Dependency(options)
    await new Promise<void>((resolve) => dependency.#server.listen(0, '127.0.0.1', resolve))
    return dependency
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  /** Calls that it is working on. */
  get running(): number {
    return this.#open.size
  }

  /** What it takes from now on, and how long a call takes. */
  become({ capacity, latencyMs }: { readonly capacity: number; readonly latencyMs: number }): void {
    this.#count()
    this.#capacity = capacity
    this.#latencyMs = latencyMs
  }

  setDown(isDown: boolean): void {
    this.#isDown = isDown
  }

  /** Its counts so far. */
  sample(): DependencyCounts {
    this.#count()
    return { ...this.#counts, usedMs: this.#usedMs, capacityMs: this.#capacityMs }
  }

  #answer(response: ServerResponse): void {
    this.#counts.calls++
    if (this.#isDown) this.#end(response, 503, 'failed')
    else if (this.#open.size >= this.#capacity) this.#end(response, 429, 'refused')
    else {
      this.#count()
      // Real calls differ; without that they would end together.
      const ms = this.#latencyMs * (0.75 + Math.random() / 2)
      const timer = setTimeout(() => {
        this.#count()
        this.#open.delete(timer)
        this.#end(response, 200, 'ok')
      }, ms)
      this.#open.add(timer)
    }
  }

  #end(response: ServerResponse, status: number, word: Word): void {
    this.#counts[word]++
    response.writeHead(status).end()
  }

  /** Adds the time since the last count. */
  #count(): void {
    const nowMs = performance.now()
    const ms = nowMs - this.#countedMs
    this.#countedMs = nowMs
    // After it was lowered it may still have more in its hands than it takes.
    this.#usedMs += ms * Math.min(this.#open.size, this.#capacity)
    this.#capacityMs += ms * this.#capacity
  }

  async close(): Promise<void> {
    for (const timer of this.#open) clearTimeout(timer)
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

/** Opens a dependency for `work` and closes it afterwards. */
export async function withDependency<T>(
  options: { readonly capacity: number; readonly latencyMs: number },
  work: (dependency: Dependency) => Promise<T>,
): Promise<T> {
  const dependency = await Dependency.open(options)
  try {
    return await work(dependency)
  } finally {
    await dependency.close()
  }
}
