// A process's presence at the server: one connection that holds a shared lock for as long as the process is there.

import { Socket } from 'node:net'
import pg from 'pg'
import { deadlineIn, pause } from './deadline.js'
import { USER } from './initialize.js'

/** How to connect to the embedded server, as pg takes it. */
export interface EmbeddedConnection {
  /** 127.0.0.1, or the absolute path of the folder the server's socket lies in. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
}

/** One process at the server. */
export interface Presence {
  readonly connection: EmbeddedConnection
  /** True once the connection has ended, on either side. */
  readonly isLost: boolean
  /** Resolves when the connection has ended. */
  readonly lost: Promise<void>
  /** True when the server answers. */
  answers(): Promise<boolean>
  /** Gives the place up. True when nobody else is there, and then keeps newcomers out until the connection ends. */
  isLastToLeave(): Promise<boolean>
  end(): void
}

/** Either a presence, or why there is none; `answered` tells a server that refuses from silence. */
export type Arrival =
  | { readonly presence: Presence }
  | { readonly presence: null; readonly answered: boolean; readonly error: Error & { readonly code?: string } }

const DATABASE = 'holdfast'
// Presence is kept apart from the jobs, in the database every server has: locks of one are not seen in the other.
const PRESENCE_DATABASE = 'postgres'
// Any number, the same in every version: "hold" in ASCII.
const PRESENCE_LOCK = 0x686f6c64
// A server on this machine answers within milliseconds; one that does not in this time is stopped or stuck.
const ANSWER_MS_MAX = 5_000

// A process that was killed is gone from the server as soon as the server's process for it has run, which a busy machine puts off.
const GONE_MS_MAX = 2_000
const GONE_LOOK_MS = 20
const NAME = 'holdfast presence of process'

const ENTER = 'SELECT pg_try_advisory_lock_shared($1) AS "isOpen"'
const LEAVE = 'SELECT pg_advisory_unlock_shared($1)'
const SHUT = 'SELECT pg_try_advisory_lock($1) AS "isLast"'
const OTHERS = `
SELECT coalesce(pg_stat_activity.application_name, '') AS "name"   -- a connection that is ending may hold its lock a little longer
  FROM pg_locks
  LEFT JOIN pg_stat_activity USING (pid)
 WHERE pg_locks.locktype = 'advisory'
   AND pg_locks.objid = $1
   AND pg_locks.pid <> pg_backend_pid()
   AND pg_locks.granted`

/** Takes a place at the server, and makes its database if need be. Never rejects. */
export async function enter(address: Pick<EmbeddedConnection, 'host' | 'port' | 'password'>): Promise<Arrival> {
  const connection = { ...address, user: USER, database: DATABASE }
  const line = dial(connection)
  try {
    await line.client.connect()
    const { rows } = await line.client.query<{ isOpen: boolean }>(ENTER, [PRESENCE_LOCK])
    if (!rows[0]!.isOpen) return refusal(line, new Error('the server is being stopped'), true)
    await makeDatabase(line.client)
    return { presence: presenceOn(line, connection) }
  } catch (cause) {
    return refusal(line, cause as Error, cause instanceof pg.DatabaseError)
  }
}

function refusal(line: Line, error: Error, answered: boolean): Arrival {
  line.socket.destroy()
  return { presence: null, answered, error }
}

interface Line {
  readonly client: pg.Client
  readonly socket: Socket
  readonly lost: Promise<void>
}

function dial(connection: EmbeddedConnection): Line {
  // A presence alone is no reason for the Node process to stay.
  const socket = new Socket().unref()
  const client = new pg.Client({
    ...connection,
    database: PRESENCE_DATABASE,
    application_name: `${NAME} ${process.pid}`,
    ssl: false,
    keepAlive: true,
    connectionTimeoutMillis: ANSWER_MS_MAX,
    query_timeout: ANSWER_MS_MAX,
    stream: () => socket,
  })
  const lost = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  // The end of the socket is signal enough; an error event without a listener would end the process.
  client.on('error', () => {})
  return { client, socket, lost }
}

async function makeDatabase(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [DATABASE])
  if (rowCount === 1) return
  await client.query(`CREATE DATABASE ${DATABASE}`).catch((error: { code?: string }) => {
    // Another process came first: seen by its name, or by the index when both were at it.
    if (error.code !== '42P04' && error.code !== '23505') throw error
  })
}

/** Whether the process that a presence is named after cannot be seen here. That is a reason to wait for its place, no more: processes in
 *  another container cannot be seen either. */
function isGone(name: string): boolean {
  const pid = Number(name.slice(NAME.length))
  if (!name.startsWith(NAME) || !Number.isInteger(pid)) return true
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as { code?: string }).code === 'ESRCH'
  }
}

function presenceOn({ client, socket, lost }: Line, connection: EmbeddedConnection): Presence {
  // The driver takes one question at a time. Callers that ask while an answer is on its way share it.
  let answering: Promise<boolean> | null = null
  const askIfAnswers = () => {
    answering ??= client
      .query('SELECT')
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        answering = null
      })
    return answering
  }
  return {
    connection,
    lost,
    get isLost() {
      return socket.closed
    },
    async answers() {
      return !socket.closed && askIfAnswers()
    },
    async isLastToLeave() {
      await answering
      if (socket.closed) return false
      try {
        // Our own place is given up first: then of two that leave concurrently, the second to ask finds nobody there.
        await client.query(LEAVE, [PRESENCE_LOCK])
        return await shutUnlessOccupied(client)
      } catch {
        // The server is gone already, or others are busy bringing it back: nothing left to stop.
        return false
      }
    },
    end() {
      socket.destroy()
    },
  }
}

/** Locks newcomers out, unless a process that lives has a place. */
async function shutUnlessOccupied(client: pg.Client): Promise<boolean> {
  for (const deadline = deadlineIn(GONE_MS_MAX); ; await pause(GONE_LOOK_MS)) {
    const { rows } = await client.query<{ isLast: boolean }>(SHUT, [PRESENCE_LOCK])
    if (rows[0]!.isLast) return true
    const { rows: others } = await client.query<{ name: string }>(OTHERS, [PRESENCE_LOCK])
    // An empty answer means that the place which held the lock went away between the two questions: the lock is tried again.
    const isOccupied = others.some(({ name }) => !isGone(name))
    if (isOccupied || performance.now() > deadline) return false
  }
}
