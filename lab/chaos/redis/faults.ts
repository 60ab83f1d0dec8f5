// The faults of Redis servers: ended, stopped, full, cut from their clients, replaced by others.

import { baseOf } from '../../../src/stores/redis/tags.js'
import type { RedisServer } from '../../servers/redis.js'
import type { PlannedFault } from '../plan.js'
import type { FaultKind } from '../settings.js'
import { sleep } from '../sleep.js'
import type { Make } from '../stage.js'
import { ask, askText, until } from './ask.js'
import { isComplete, isUp, type RedisMachine, takenOver } from './machine.js'

interface RedisParts {
  readonly machine: RedisMachine
  /** The shards in which the run has queues. */
  readonly shards: readonly number[]
  /** When faults of servers were on, for the collector. */
  readonly spans: Span[]
}

/** The store's times between which a fault of a server was on. */
export interface Span {
  readonly kind: FaultKind
  readonly from: number
  readonly to: number
}

type MakeOnRedis = (parts: RedisParts, fault: PlannedFault, begin: () => void) => Promise<void>

const PATIENCE_MS = 10_000
/** A switch that was asked for and has not come about in this time comes about no more. */
const SWITCH_MS = 7_000
const SWITCHES_MAX = 6
const STARTS_MAX = 50
/** Far below what any run needs. */
const MEMORY_FULL = '1mb'

export function redisMakers(parts: RedisParts): Partial<Record<FaultKind, Make>> {
  return Object.fromEntries(
    Object.entries(MAKERS).map(([kind, make]): [string, Make] => {
      return [
        kind,
        async (_, fault, begin) => {
          const from = Date.now()
          // One that failed half way may have made another server take over as well.
          await make(parts, fault, begin).finally(() => parts.spans.push({ kind: fault.kind, from, to: Date.now() }))
        },
      ]
    }),
  )
}

const MAKERS: Readonly<Partial<Record<FaultKind, MakeOnRedis>>> = {
  'kill server': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    await server.kill()
    begin()
    await startAgain(parts.machine, server)
    await isUp(server)
  },
  'stop server': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    await server.stop()
    begin()
    await sleep(fault.ms)
    await startAgain(parts.machine, server)
    await isUp(server)
  },
  'stall server': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    server.signal('SIGSTOP')
    begin()
    await sleep(fault.ms)
    server.signal('SIGCONT')
  },
  'memory full': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    const [, before] = (await ask(server, ['CONFIG', 'GET', 'maxmemory'])) as string[]
    await ask(server, ['CONFIG', 'SET', 'maxmemory', MEMORY_FULL])
    try {
      await untilRefused(parts, fault, 'OOM')
      begin()
      await sleep(fault.ms)
    } finally {
      await ask(server, ['CONFIG', 'SET', 'maxmemory', before!])
    }
  },
  'disk full': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    const disk = parts.machine.disks.get(server)
    if (disk === undefined) throw new Error('this run has no disk that can be filled')
    await disk.fill()
    try {
      await untilRefused(parts, fault, 'MISCONF')
      begin()
      await sleep(fault.ms)
    } finally {
      await disk.free()
    }
    await until('the append-only file is written again', async () => (await written(parts, fault)) === 'OK')
    await rewritten(server)
  },
  'kill clients': async ({ machine }, _, begin) => {
    for (const server of await machine.masters()) await ask(server, ['CLIENT', 'KILL', 'TYPE', 'normal'])
    begin()
  },
  'lose notifications': async ({ machine }, _, begin) => {
    for (const server of await machine.masters()) await ask(server, ['CLIENT', 'KILL', 'TYPE', 'pubsub'])
    begin()
  },
  'pause clients': async (parts, fault, begin) => {
    await ask(await chosen(parts, fault), ['CLIENT', 'PAUSE', fault.ms, 'ALL'])
    begin()
    await sleep(fault.ms)
  },
  'replica away': async ({ machine }, { luck, ms }, begin) => {
    const masters = await machine.masters()
    const replicas = machine.servers.filter((server) => !masters.includes(server))
    const replica = replicas[Math.floor(luck * replicas.length)]!
    await replica.kill()
    begin()
    await sleep(ms)
    await startAgain(machine, replica)
    await isUp(replica)
  },
  'fail over': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    await server.kill()
    begin()
    await replaced(parts, server)
  },
  'switch servers': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    begin()
    // A replica that has just come back, or a vote that was split: the command is given again.
    for (let tries = 1; ; tries++) {
      try {
        await parts.machine.switchOver(server)
        await takenOver(parts.machine, server, SWITCH_MS)
        break
      } catch (error) {
        if (tries === SWITCHES_MAX) throw error
        await sleep(1_000)
      }
    }
    // Until then the former one may answer claims.
    await isComplete(parts.machine)
  },
  // Connections to the former primary stay open, and it takes calls until it learns that there is another.
  'flip roles': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    server.signal('SIGSTOP')
    begin()
    await takenOver(parts.machine, server).finally(() => server.signal('SIGCONT'))
    await isComplete(parts.machine)
  },
  'replication cut': async (parts, fault, begin) => {
    const server = await chosen(parts, fault)
    await parts.machine.cutReplication(server)
    begin()
    await sleep(fault.ms)
    await server.kill()
    await replaced(parts, server)
  },
  'move slots': async ({ machine, shards }, { luck }, begin) => {
    if (machine.moveShard === null) throw new Error('only a cluster has slots to move')
    begin()
    await machine.moveShard(shards[Math.floor(luck * shards.length)]!)
  },
}

/** Writes the append-only file anew, as docs/redis.md tells operators to do: Redis 7.0 leaves zeros in the middle of a file whose disk was
 *  full, and does not start from it. */
async function rewritten(server: RedisServer): Promise<void> {
  const isIdle = async () => {
    const facts = await askText(server, ['INFO', 'persistence'])
    return ['in_progress:0', 'scheduled:0'].every((word) => facts.includes(`aof_rewrite_${word}`))
  }
  // One that the server began by itself may have begun on the full disk.
  await until('no append-only file is being rewritten', isIdle)
  await ask(server, ['BGREWRITEAOF'])
  await until('the append-only file is rewritten', isIdle)
}

/** Waits until another server has taken over, and brings the one that was killed back as its replica. */
async function replaced({ machine }: RedisParts, server: RedisServer): Promise<void> {
  await takenOver(machine, server)
  await startAgain(machine, server)
  await isComplete(machine)
}

/** Right after a kill, something of the server may not be free yet. */
async function startAgain(machine: RedisMachine, server: RedisServer): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await machine.restart(server)
    } catch (error) {
      if (tries === STARTS_MAX) throw error
      await sleep(200)
    }
  }
}

/** One of the servers that have a queue of the run. */
async function chosen(parts: RedisParts, fault: PlannedFault): Promise<RedisServer> {
  return parts.machine.masterOf(shardOf(parts, fault))
}

function shardOf({ shards }: RedisParts, { luck }: PlannedFault): number {
  return shards[Math.floor(luck * shards.length)]!
}

/** Waits until the server refuses writes with this word. */
async function untilRefused(parts: RedisParts, fault: PlannedFault, word: string): Promise<void> {
  await until(`a write is refused with ${word}`, async () => (await written(parts, fault)).includes(word), PATIENCE_MS)
}

/** What the server says to a small write. */
async function written(parts: RedisParts, fault: PlannedFault): Promise<string> {
  const server = await chosen(parts, fault)
  const key = `${baseOf('', shardOf(parts, fault))}lab`
  return ask(server, ['SET', key, String(Date.now())]).then(String, (error: unknown) => String(error))
}

/** Whether the server takes a write. */
export async function takesWrites(machine: RedisMachine, shard: number): Promise<boolean> {
  const key = `${baseOf('', shard)}lab`
  return (await askText(await machine.masterOf(shard), ['SET', key, String(Date.now())])) === 'OK'
}
