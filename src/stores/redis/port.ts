// What the store needs of a Redis driver. node-redis.ts has it for @redis/client.

/** A reply as the server sent it: texts, whole numbers, null, and lists of these. */
export type Reply = string | number | null | readonly Reply[]

/** One connection. Commands are sent in the order of the calls, without waiting for each other, and never again. */
export interface RedisConnection {
  /** Rejects with the server's error, or with that of the connection. */
  send(command: readonly string[]): Promise<Reply>
  /** Calls `onMessage` for each message of the channel. */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<void>
  readonly isOpen: boolean
  /** Resolves when the connection has ended, whatever the reason. */
  readonly ended: Promise<void>
  /** Ends it immediately; calls in flight are rejected. */
  destroy(): void
}

export interface OpenOptions {
  readonly url: string
  readonly connectMs: number
}

/** The text of an error that the server answered, or null for a failure of the connection. */
export function serverError(thrown: unknown): string | null {
  return (thrown as { isFromServer?: unknown })?.isFromServer === true ? (thrown as Error).message : null
}
