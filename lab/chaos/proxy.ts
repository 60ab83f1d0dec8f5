// A TCP proxy in front of PostgreSQL that can cut, refuse, stall and slow down connections. Because it reads the protocol, it can
// also lose the answer to a commit: the server has done the work, and the client never learns it from this connection.

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** What a message to the server is: its type and, where it has one, the statement's name or text. */
export interface FrontendMessage {
  /** 'Q' simple query, 'P' parse, 'B' bind, 'E' execute, 'S' sync, … */
  readonly type: string
  /** Text of a simple query, name of a prepared statement that is bound, as it is in our code. */
  readonly text: string
}

interface Link {
  readonly client: Socket
  readonly server: Socket
  /** How many answers (ReadyForQuery) have arrived, and how many were requested. */
  answered: number
  asked: number
  /** The answer that must not reach the client, or null. */
  cutAt: number | null
}

export class FaultProxy {
  #target: number
  readonly #server: Server
  readonly #links = new Set<Link>()
  #mode: 'pass' | 'blackhole' | 'refuse' = 'pass'
  #delayMs = 0
  #trap: { matches: (message: FrontendMessage) => boolean; sprung: () => void } | null = null

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer((client) => this.#accept(client))
  }

  static async open(targetPort: number): Promise<FaultProxy> {
    const proxy = new FaultProxy(targetPort)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  get url(): string {
    return `postgres://holdfast@127.0.0.1:${this.port}/postgres`
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
    const link: Link = { client, server, answered: 0, asked: 1, cutAt: null }
    this.#links.add(link)
    const end = () => {
      this.#links.delete(link)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end)
    const fromClient = messageReader(false, (message) => this.#toServer(link, message))
    const fromServer = messageReader(true, (message) => this.#toClient(link, message))
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
    // Each sync and each simple query is answered by one ReadyForQuery.
    if (message.type === 'S' || message.type === 'Q') link.asked++
  }

  #toClient(link: Link, message: FrontendMessage): void {
    if (message.type === 'Z') link.answered++
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

/** Cuts a stream of the PostgreSQL protocol into messages. The client's first one has no type. */
function messageReader(isServer: boolean, onMessage: (message: FrontendMessage) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let isFirst = !isServer
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      const header = isFirst ? 4 : 5
      if (rest.length < header) return
      const length = rest.readInt32BE(header - 4) + header - 4
      if (rest.length < length) return
      if (!isFirst) onMessage(readMessage(rest.subarray(0, length)))
      // An encryption request is answered by one byte, and then the real first message comes.
      else if (rest.readInt32BE(4) === 80877103) throw new Error('the proxy speaks no TLS')
      isFirst = false
      rest = rest.subarray(length)
    }
  }
}

function readMessage(message: Buffer): FrontendMessage {
  const type = String.fromCharCode(message[0]!)
  if (type === 'Q' || type === 'P') return { type, text: readText(message, 5).text }
  // What follows the last _ is a hash of the statement's text.
  if (type === 'B')
    return { type, text: readText(message, readText(message, 5).end).text.replace(/_[0-9a-f]{16}$/, '') }
  return { type, text: '' }
}

function readText(message: Buffer, from: number): { text: string; end: number } {
  const zero = message.indexOf(0, from)
  return { text: message.toString('utf8', from, zero), end: zero + 1 }
}
