// A TCP proxy in front of a server that can cut, refuse, stall and slow down connections. Because it reads the protocol, it can
// also lose the answer to a commit: the server has done the work, and the client never learns it from this connection.

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { POSTGRES_WIRE } from './postgres/wire.js'
import type { FrontendMessage, Wire } from './wire.js'

interface Link {
  readonly client: Socket
  readonly server: Socket
  /** How many answers have arrived, and how many were requested. */
  answered: number
  asked: number
  /** The answer that must not reach the client, or null. */
  cutAt: number | null
}

export class FaultProxy {
  #target: number
  readonly #wire: Wire
  readonly #server: Server
  readonly #links = new Set<Link>()
  #mode: 'pass' | 'blackhole' | 'refuse' = 'pass'
  #delayMs = 0
  #trap: { matches: (message: FrontendMessage) => boolean; sprung: () => void } | null = null

  private constructor(target: number, wire: Wire) {
    this.#target = target
    this.#wire = wire
    this.#server = createServer((client) => this.#accept(client))
  }

  static async open(targetPort: number, wire: Wire = POSTGRES_WIRE): Promise<FaultProxy> {
    const proxy = new FaultProxy(targetPort, wire)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  get url(): string {
    return this.#wire.url(this.port)
  }

  /**
   * Lets the next message that matches through, waits until the server has answered it, and cuts the connection instead of
   * passing the answer on. Resolves when that has happened.
   */
  loseAnswerTo(matches: (message: FrontendMessage) => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#trap = { matches, sprung: resolve }
    })
  }

  /** Cancels a pending `loseAnswerTo`. */
  forgetTrap(): void {
    this.#trap = null
  }

  /** Sends new connections to another server, as a moved address does. Open ones stay. */
  retarget(targetPort: number): void {
    this.#target = targetPort
  }

  /** Ends every connection in order, as a server or balancer does when it stops. */
  finishAll(): void {
    for (const { client, server } of this.#links) {
      client.end()
      server.end()
    }
  }

  /** Cuts every connection and accepts no new ones. */
  refuse(): void {
    this.#mode = 'refuse'
    this.cutAll()
  }

  /** Delays everything by this long, each way. */
  slowDown(delayMs: number): void {
    this.#delayMs = delayMs
  }

  /** Cuts every connection. */
  cutAll(): void {
    for (const { client, server } of this.#links) {
      client.resetAndDestroy()
      server.destroy()
    }
  }

  /** Drops everything in both directions from now on, as a broken network does: no data, no error. */
  blackhole(): void {
    this.#mode = 'blackhole'
  }

  /** Ends all faults: after a blackhole old connections are cut, new ones work. */
  heal(): void {
    const wasStalled = this.#mode !== 'pass'
    this.#mode = 'pass'
    this.#delayMs = 0
    if (wasStalled) this.cutAll()
  }

  #accept(client: Socket): void {
    if (this.#mode === 'refuse') {
      client.on('error', () => {}).resetAndDestroy()
      return
    }
    const server = connect(this.#target, '127.0.0.1')
    const link: Link = { client, server, answered: 0, asked: this.#wire.greetings, cutAt: null }
    this.#links.add(link)
    const end = () => {
      this.#links.delete(link)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end)
    const fromClient = this.#wire.requests((message) => this.#toServer(link, message))
    const fromServer = this.#wire.answers(() => {
      link.answered++
    })
    const toServer = new Pipe(server)
    const toClient = new Pipe(client)
    client.on('data', (chunk) => {
      if (this.#mode !== 'pass') return
      fromClient(chunk)
      toServer.send(chunk, this.#delayMs)
    })
    server.on('data', (chunk) => {
      if (this.#mode !== 'pass') return
      fromServer(chunk)
      if (link.cutAt === null || link.answered < link.cutAt) toClient.send(chunk, this.#delayMs)
      else this.#spring(link)
    })
  }

  #toServer(link: Link, message: FrontendMessage): void {
    if (this.#trap !== null && link.cutAt === null && this.#trap.matches(message)) link.cutAt = link.asked + 1
    if (message.isAsked) link.asked++
  }

  #spring(link: Link): void {
    const trap = this.#trap
    this.#trap = null
    link.client.resetAndDestroy()
    link.server.destroy()
    trap?.sprung()
  }

  async close(): Promise<void> {
    this.#server.close()
    this.cutAll()
    if (this.#server.listening) await once(this.#server, 'close')
  }
}

/** One direction of a link. Delayed data is never overtaken by later data. */
class Pipe {
  readonly #to: Socket
  #dueMs = 0

  constructor(to: Socket) {
    this.#to = to
  }

  send(chunk: Buffer, delayMs: number): void {
    const nowMs = performance.now()
    const dueMs = Math.max(nowMs + delayMs, this.#dueMs)
    if (dueMs <= nowMs) {
      if (this.#to.writable) this.#to.write(chunk)
      return
    }
    this.#dueMs = dueMs
    // Timers of one length fire in the order they were set; the rounding up keeps those of different lengths in order too.
    setTimeout(() => this.#to.writable && this.#to.write(chunk), Math.ceil(dueMs - nowMs))
  }
}
