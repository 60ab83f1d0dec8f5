// Since when a shard has been on its server. A replica that was promoted has been up for long itself, but the leases it has were extended on
// another server, perhaps later than it knows. Its replication id is new then, as after a restart: meta has the one that was seen last, and
// since when. A process reports a failover that happened while it was running.

import type { Emit } from '../../core/events.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/** ARGV: the server's replication id, the one it had before, which shard this is. Answers with how long the first has been known, in ms. */
export const EPOCH: string = lua`
writes('epoch', { 'allow-oom' }, function(work, args)
  local id, previous, name = args[3], args[4], args[5]
  local known = redis.call('HMGET', work.b .. 'meta', 'replid', 'since')
  if known[1] == id then return text(math.max(0, work.t - known[2])) end
  setField(work, 'meta', 'replid', id)
  setField(work, 'meta', 'since', work.t)
  -- A promoted replica goes on with the history of the primary; a restarted server begins one of its own.
  if known[1] == previous then
    audit(work, 'holdfast', 'failover', '', name, '{"from":"' .. previous .. '","to":"' .. id .. '"}')
  end
  return '0'
end)
`

/**
 * A name for the life of the server that has this shard, on the connection that jobs are written to: another one after a restart, a failover,
 * or when the store was made anew. What was written before may be lost then.
 */
export async function epochOf(redis: Redis): Promise<string> {
  const info = await redis.info('enqueue', 'replication')
  const [id, previous] = [info.get('master_replid') ?? '', info.get('master_replid2') ?? '']
  const { base } = redis.settings
  const known = () => redis.command('enqueue', 'HMGET', `${base}meta`, 'replid', 'since') as Promise<readonly unknown[]>
  let [replid, since] = await known()
  if (replid !== id) {
    await redis.write('enqueue', 'epoch', [id, previous, base])
    ;[replid, since] = await known()
  }
  return `${replid} ${since}`
}

interface Epoch {
  readonly id: string
  readonly sinceMs: number
}

/** The epochs of the shards of one store. */
export class Epochs {
  readonly #known = new Map<Redis, Epoch>()
  #emit: Emit = () => {}

  reportTo(emit: Emit): void {
    this.#emit = emit
  }

  /** How long the shard has been up where it is. `nowMs` is its server's time. */
  async upMs(redis: Redis, nowMs: number): Promise<number> {
    const info = await redis.info('upkeep', 'server', 'replication')
    const id = info.get('master_replid') ?? ''
    const before = this.#known.get(redis)
    if (before?.id !== id) await this.#changed(redis, { id, previous: info.get('master_replid2') ?? '', nowMs, before })
    const serverMs = Number(info.get('uptime_in_seconds') ?? 0) * 1_000
    return Math.min(serverMs, Math.max(0, nowMs - this.#known.get(redis)!.sinceMs))
  }

  async #changed(
    redis: Redis,
    { id, previous, nowMs, before }: { id: string; previous: string; nowMs: number; before: Epoch | undefined },
  ): Promise<void> {
    const { base } = redis.settings
    const { value } = await redis.write<string>('upkeep', 'epoch', [id, previous, base])
    this.#known.set(redis, { id, sinceMs: nowMs - Number(value) })
    if (before !== undefined && before.id === previous)
      this.#emit({ name: 'store.failed_over', keys: base, from: previous, to: id })
  }
}
