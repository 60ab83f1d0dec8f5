// Limits the connections of a server, in total and for each address. An address at its limit loses its connection that has
// been idle longest, so slow sockets harm only their own address.

import type { Server, ServerResponse } from 'node:http'
import { isIPv6, type Socket } from 'node:net'

interface ConnectionLimits {
  readonly connectionsMax: number
  readonly connectionsPerAddressMax: number
}

/** The sockets of one address. */
interface Peer {
  readonly address: string
  /** Sockets with requests in progress, and how many each has. */
  readonly busy: Map<Socket, number>
  /** The other sockets, longest idle first: new, slow in sending, or kept open for the next request. */
  readonly waiting: Set<Socket>
}

export class Connections {
  readonly #limits: ConnectionLimits
  readonly #peers = new Map<string, Peer>()
  readonly #peerOf = new WeakMap<Socket, Peer>()
  #count = 0

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /** Counts the connections of a server. Several may share one count. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => this.#admit(socket))
    server.prependListener('request', ({ socket }, response: ServerResponse) => {
      const peer = this.#peerOf.get(socket)
      if (peer === undefined) return
      peer.waiting.delete(socket)
      peer.busy.set(socket, (peer.busy.get(socket) ?? 0) + 1)
      response.once('close', () => answered(peer, socket))
    })
  }

  #admit(socket: Socket): void {
    const address = addressOf(socket)
    const peer = this.#peers.get(address) ?? { address, busy: new Map(), waiting: new Set() }
    if (!this.#makeRoom(peer)) {
      socket.destroy()
      return
    }
    this.#peers.set(address, peer)
    this.#peerOf.set(socket, peer)
    peer.waiting.add(socket)
    this.#count++
    socket.once('close', () => this.#forget(socket, peer))
  }

  /** At a limit, ends the connection that has been idle longest. False when none is idle. */
  #makeRoom(peer: Peer): boolean {
    const { connectionsMax, connectionsPerAddressMax } = this.#limits
    const isOver = sizeOf(peer) >= connectionsPerAddressMax
    if (!isOver && this.#count < connectionsMax) return true
    const crowd = isOver ? peer : this.#largest()
    const [oldest] = crowd.waiting
    if (oldest === undefined) return false
    // Not only when it has closed: its place is needed now.
    this.#forget(oldest, crowd)
    oldest.destroy()
    return true
  }

  #largest(): Peer {
    let largest: Peer | null = null
    for (const peer of this.#peers.values()) if (largest === null || sizeOf(peer) > sizeOf(largest)) largest = peer
    return largest!
  }

  #forget(socket: Socket, peer: Peer): void {
    if (!this.#peerOf.delete(socket)) return
    peer.waiting.delete(socket)
    peer.busy.delete(socket)
    this.#count--
    if (sizeOf(peer) === 0) this.#peers.delete(peer.address)
  }
}

function answered({ busy, waiting }: Peer, socket: Socket): void {
  const requests = busy.get(socket)
  // A closed socket was removed and must not be added again.
  if (requests === undefined) return
  if (requests > 1) busy.set(socket, requests - 1)
  else {
    busy.delete(socket)
    waiting.add(socket)
  }
}

function sizeOf({ busy, waiting }: Peer): number {
  return busy.size + waiting.size
}

/** For IPv6 its 64-bit network, because one client has all addresses of it. */
function addressOf({ remoteAddress = 'unknown' }: Socket): string {
  if (!isIPv6(remoteAddress)) return remoteAddress
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress)?.[1]
  return mapped ?? networkOf(remoteAddress)
}

function networkOf(address: string): string {
  const [head = '', tail] = address.split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array.from({ length: tail === undefined ? 0 : Math.max(0, 8 - first.length - last.length) }, () => '0')
  return [...first, ...zeros, ...last].slice(0, 4).join(':')
}
