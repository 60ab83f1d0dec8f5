// One address in front of servers that take turns, as a service address or a load balancer is. What it carries it does not read.

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

export class Relay {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #target: number

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer((client) => this.#accept(client))
  }

  static async open(targetPort: number): Promise<Relay> {
    const relay = new Relay(targetPort)
    relay.#server.listen(0, '127.0.0.1')
    await once(relay.#server, 'listening')
    return relay
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  /** Leads to another server from now on, and cuts what leads to the one before. */
  retarget(targetPort: number): void {
    this.#target = targetPort
    for (const socket of this.#sockets) socket.destroy()
  }

  #accept(client: Socket): void {
    const server = connect(this.#target, '127.0.0.1')
    const end = () => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.setNoDelay(true).on('error', end)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        end()
      })
    }
    client.pipe(server)
    server.pipe(client)
  }

  async close(): Promise<void> {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await once(this.#server, 'close')
  }
}
