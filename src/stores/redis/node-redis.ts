// The driver @redis/client behind the port. It is loaded with the first connection, so that those who use another store need not have it.

import type { createClient } from '@redis/client'
import { HoldfastError } from '../../core/errors.js'
import type { OpenOptions, RedisConnection, Reply } from './port.js'

type Client = ReturnType<typeof createClient>

/** A client that is never connected. */
let template: Client | null = null

/** Opens a connection. It is never opened again by the driver: the store decides when, and what to repeat. */
export async function openConnection({ url, connectMs }: OpenOptions): Promise<RedisConnection> {
  const { createClient, ErrorReply } = await loadDriver()
  const socket = { connectTimeout: connectMs, reconnectStrategy: false as const }
  // The driver makes a class with all commands for each URL it has not just seen: 78 of 100 ms of a new store over three masters. A duplicate
  // has the class of its original.
  template ??= createClient({ RESP: 2, disableOfflineQueue: true, disableClientInfo: true }) as unknown as Client
  const client = template.duplicate({ url, socket }) as unknown as Client
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  // Calls in flight are rejected as well; without a listener the error would end the process.
  client.on('error', () => end())
  client.on('end', () => end())
  const mark = (thrown: unknown): never => {
    if (thrown instanceof ErrorReply) Object.defineProperty(thrown, 'isFromServer', { value: true })
    throw thrown
  }
  await withDeadline(client.connect(), connectMs, () => client.destroy()).catch(mark)
  return {
    send: (command) => client.sendCommand([...command]).catch(mark) as unknown as Promise<Reply>,
    subscribe: (channel, onMessage) => client.sSubscribe(channel, onMessage).catch(mark),
    get isOpen() {
      return client.isReady
    },
    ended,
    destroy: () => {
      if (client.isOpen) client.destroy()
      end()
    },
  }
}

async function loadDriver(): Promise<typeof import('@redis/client')> {
  try {
    return await import('@redis/client')
  } catch (error) {
    throw new HoldfastError(
      'unsupported',
      'a redis:// URL needs the package @redis/client: npm install @redis/client',
      {
        cause: error,
      },
    )
  }
}

/** The driver's own limit covers the socket alone, and not what the server makes of the first commands. */
function withDeadline<T>(work: Promise<T>, ms: number, onLate: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      onLate()
      reject(new Error(`no answer within ${ms} ms`))
    }, ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}
