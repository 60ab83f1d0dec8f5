// How soon the jobs of a killed child run again: children of this process are killed one after the other, under load.

import { setTimeout as sleep } from 'node:timers/promises'
import { type Holdfast, openHoldfast } from '../../../src/index.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { type Began, beside, handlers, held } from './jobs.js'

const CONCURRENCY = 60
/** How many jobs wait in the children when one of them is killed: half of them are its own. */
const HELD = 40
const BESIDE_EVERY_MS = 20
/** Beyond this age the end of a child is not counted as one soon after its start, so that no pause grows from kill to kill. */
const AGE_MS = 11_000
const LOOK_MS = 20

export interface Kill {
  /** From the signal until each of the child's jobs began again, in order. */
  readonly againMs: readonly number[]
}

/** Kills `kills` children. */
export async function killChildren(url: string, kills: number): Promise<readonly Kill[]> {
  const holdfast = await openHoldfast(await postgresStore(url))
  const children = watchChildren(holdfast)
  const worker = holdfast.worker({
    handlers: handlers.filter(({ definition: { type } }) => type === 'held' || type === 'beside'),
    module: new URL('./jobs.js', import.meta.url),
    processes: 2,
    concurrency: CONCURRENCY,
  })
  await worker.start()
  const load = setInterval(() => void holdfast.enqueue(beside, null).catch(() => {}), BESIDE_EVERY_MS)
  try {
    const done: Kill[] = []
    for (let kill = 0; kill < kills; kill++) done.push(await killOne(holdfast, children))
    return done
  } finally {
    clearInterval(load)
    await holdfast.close()
  }
}

/** The children that are ready, by process id, and when each was. */
function watchChildren(holdfast: Holdfast): ReadonlyMap<number, number> {
  const children = new Map<number, number>()
  holdfast.on((event) => {
    if (event.name === 'child.started') children.set(event.pid!, performance.now())
    if (event.name === 'child.ended') children.delete(event.pid!)
  })
  return children
}

async function killOne(holdfast: Holdfast, children: ReadonlyMap<number, number>): Promise<Kill> {
  const isOld = () => children.size === 2 && performance.now() - Math.min(...children.values()) > AGE_MS
  while (!isOld()) await sleep(LOOK_MS)
  let started = 0
  const unlisten = holdfast.on((event) => {
    if (event.name === 'job.started' && event.type === 'held' && event.attempt === 1) started++
  })
  const jobs = await holdfast.enqueueMany(
    held,
    Array.from({ length: HELD }, () => null),
  )
  while (started < HELD) await sleep(LOOK_MS)
  unlisten()
  // What was sent has been read by then.
  await sleep(100)
  const [[victim]] = [...children].sort(([, one], [, other]) => one - other) as [[number, number]]
  const killedAtMs = Date.now()
  process.kill(victim, 'SIGKILL')
  const began = await Promise.all(jobs.map(({ id }) => holdfast.wait(id, { timeout: '60s' }) as Promise<Began>))
  const again = began.filter(({ attempt }) => attempt > 1).map(({ atMs }) => atMs - killedAtMs)
  return { againMs: again.sort((one, other) => one - other) }
}
