// How each kind of fault is made. A fault is recorded when it really begins and when it is over. A fault that did not happen is
// not recorded, and then the run does not count.

import type pg from 'pg'
import type { Recorder } from '../gen/recorder.js'
import { say } from '../say.js'
import type { PostgresServer } from '../servers/postgres.js'
import type { FleetWorker } from './fleet.js'
import { JOBS, type Producer } from './load.js'
import type { Machine } from './machine.js'
import { onServer, sleep } from './on-server.js'
import { disabledBy, type PlannedFault } from './plan.js'
import type { FaultProxy, FrontendMessage } from './proxy.js'
import { type RoleKind, setRole } from './roles.js'
import type { FaultKind } from './settings.js'
import type { Stranger } from './stranger.js'
import { WITNESS } from './watch.js'
import { SPECIAL } from './work.js'

/** The tablespace on the disk that can be filled. */
export const FILLABLE = 'fillable'

export interface Scene {
  readonly machine: Machine
  /** The server that takes writes now. */
  readonly server: PostgresServer
  readonly stranger: Stranger
  readonly schema: string
  readonly fleet: readonly FleetWorker[]
  readonly producers: readonly Producer[]
  readonly recorder: Recorder
}

/** A fault in progress: `begin` is called when it happens. */
type Make = (scene: Scene, fault: PlannedFault, begin: () => void) => Promise<void>

const PATIENCE_MS = 30_000
const SKEW_MS = 3_600_000
const CAUGHT_UP_MS = 60_000
const AHEAD_MS = 600_000
const BACK_MS = 300_000
const DISK_FULL = '53100'

/** Makes one fault, with its lines in the record. */
export async function makeFault(scene: Scene, fault: PlannedFault): Promise<void> {
  const { kind, target, index } = fault
  let hasBegun = false
  let storeAt = Date.now()
  const disables = disabledBy(fault)
  const begin = () => {
    if (hasBegun) return
    hasBegun = true
    // From the moment before the fault: a server that is stopping no longer serves.
    scene.recorder.write({
      ev: 'fault.begin',
      kind,
      target,
      index,
      storeAt,
      ...(disables === null ? {} : { disables }),
    })
  }
  // A server from which a standby is being copied is not disturbed.
  if (target === 'server') await scene.machine.settled()
  storeAt = Date.now()
  await MAKERS[kind](scene, fault, begin)
  if (hasBegun) scene.recorder.write({ ev: 'fault.end', kind, target, index, storeAt: Date.now() })
}

const MAKERS: Readonly<Record<FaultKind, Make>> = {
  'kill worker': signalled(['SIGKILL']),
  'kill supervisor': signalled(['SIGKILL']),
  'kill child': async (scene, fault, begin) => {
    const worker = await workerOf(scene, fault)
    worker.order({ order: 'kill child' })
    begin()
  },
  'exiting handler': special('exiting'),
  'leaking handler': special('leaking'),
  'spinning handler': special('spinning'),
  deploy: signalled(['SIGTERM']),
  'second signal': signalled(['SIGTERM', 'SIGTERM']),
  'kill after effect': async (scene, fault, begin) => {
    const worker = await workerOf(scene, fault)
    const ended = worker.ended()
    worker.order({ order: 'die after effect' })
    await ended
    begin()
  },
  'pause beyond lease': paused,
  'pause within lease': paused,
  'block event loop': async (scene, fault, begin) => {
    const worker = await workerOf(scene, fault)
    worker.order({ order: 'block', ms: fault.ms })
    begin()
    await sleep(fault.ms)
  },
  'skew clock': async (scene, fault, begin) => {
    const worker = await workerOf(scene, fault)
    const ended = worker.ended()
    worker.skewMs = fault.luck < 0.5 ? SKEW_MS : -SKEW_MS
    worker.signal('SIGTERM')
    await ended
    await worker.ready()
    begin()
  },
  'cut by reset': async (scene, fault, begin) => {
    linkOf(scene, fault).cutAll()
    begin()
  },
  'cut by end': async (scene, fault, begin) => {
    linkOf(scene, fault).finishAll()
    begin()
  },
  'refuse connections': (scene, fault, begin) => broken(scene, fault, begin, (link) => link.refuse()),
  'half-open link': (scene, fault, begin) => broken(scene, fault, begin, (link) => link.blackhole()),
  'slow link': (scene, fault, begin) => broken(scene, fault, begin, (link) => link.slowDown(60 + fault.luck * 100)),
  'lose answer to claim': lost('claim', ({ type, text }) => type === 'B' && text.startsWith('claim')),
  'lose answer to settle': lost('settle', ({ type, text }) => type === 'B' && text.startsWith('settle')),
  'lose answer to enqueue': lost('enqueue', ({ type, text }) => type === 'B' && text.startsWith('enqueue')),
  // For a handler that settles in its own transaction: effect and settlement are committed, and the handler can't know.
  'lose answer to commit': lost('commit', ({ type, text }) => type === 'Q' && text === 'COMMIT'),
  'terminate backends': async ({ server }, _, begin) => {
    await onServer(server, async (sql) => {
      await sql.query(`SELECT pg_terminate_backend(pid) FROM (${OURS} ORDER BY random() LIMIT 5) AS chosen`)
      begin()
    })
  },
  'kill backend': async ({ server }, _, begin) => {
    await onServer(server, async (sql) => {
      const { rows } = await sql.query<{ pid: number }>(`${OURS} ORDER BY random() LIMIT 1`)
      if (rows[0] === undefined) return
      process.kill(rows[0].pid, 'SIGKILL')
      begin()
    })
    // It is recovering. With a full disk it would give up.
    await untilUp(server)
  },
  'stop server': async ({ server }, fault, begin) => {
    await server.stop(fault.luck < 0.5 ? 'SIGQUIT' : 'SIGINT')
    begin()
    await sleep(fault.ms)
    await startAgain(server)
  },
  'lose notifications': async ({ server }, _, begin) => {
    await onServer(server, async (sql) => {
      await sql.query(`SELECT pg_terminate_backend(pid) FROM (${OURS} AND query ILIKE 'LISTEN%') AS listening`)
      begin()
    })
  },
  'lock tables': async ({ server, schema }, fault, begin) => {
    await onServer(server, async (sql) => {
      await sql.query('BEGIN')
      await sql.query(`SET LOCAL lock_timeout = ${PATIENCE_MS}`)
      await sql.query(`LOCK TABLE "${schema}".running IN ACCESS EXCLUSIVE MODE`)
      begin()
      await sleep(fault.ms)
      await sql.query('ROLLBACK')
    })
  },
  'disk full': async ({ server, machine: { disk } }, fault, begin) => {
    if (disk === null) throw new Error('this run has no disk that can be filled')
    await disk.fill()
    try {
      await onServer(server, async (sql) => {
        if (await isRefused(sql)) begin()
      })
      await sleep(fault.ms)
    } finally {
      await disk.free()
    }
  },
  // The next jump waits until the schedules have caught up: two jumps together exceed catchUpMax.
  'clock ahead': async ({ server, schema }, _, begin) => {
    await server.clock!.move(AHEAD_MS)
    begin()
    const behind = `SELECT count(*)::int AS n FROM "${schema}".schedules WHERE next_at < clock_timestamp() - interval '60 s'`
    const deadline = performance.now() + CAUGHT_UP_MS
    const isBehind = () => onServer(server, async (sql) => (await sql.query<{ n: number }>(behind)).rows[0]!.n > 0)
    while ((await isBehind()) !== false && performance.now() < deadline) await sleep(200)
  },
  // Set back and restored after a while. Otherwise jobs timed before would be due only minutes later.
  'clock back': async ({ server }, fault, begin) => {
    await server.clock!.move(-BACK_MS)
    begin()
    await sleep(fault.ms)
    await server.clock!.move(BACK_MS)
  },
  'dependency away': async ({ fleet }, fault, begin) => {
    for (const worker of fleet) worker.order({ order: 'dependency', isDown: true })
    begin()
    await sleep(fault.ms)
    for (const worker of fleet) worker.order({ order: 'dependency', isDown: false })
  },
  'poison burst': async ({ producers }, fault, begin) => {
    const producer = producers[Math.floor(fault.luck * producers.length)]!
    for (let count = 0; count < 30; count++) producer.add(JOBS.poison, { kind: 'poison', failures: null })
    begin()
  },
  'killing payload': special('killer'),
  'stuck handler': special('stuck'),
  'transaction outlives lease': async ({ producers }, _, begin) => {
    for (let count = 0; count < 3; count++) producers[0]!.add(SPECIAL.outliving, { effect: 'outside' })
    begin()
  },
  'stranger holds key': (scene, { luck }, begin) =>
    untilBegun(begin, (isBegun) => scene.stranger.holdKey(() => scene.server, luck < 0.5, isBegun)),
  'late commits under snapshot': (scene, _, begin) =>
    untilBegun(begin, (isBegun) => scene.stranger.commitLate(() => scene.server, isBegun)),
  'role: repeatable read': strictRole,
  'role: serializable': strictRole,
  'role: transaction timeout': strictRole,
  'role: idle in transaction timeout': strictRole,
  'role: statement timeout': strictRole,
  'role: synchronous commit off': strictRole,
  'demoted for a while': ({ machine }, { ms }, begin) => machine.demote(ms, begin),
  'switch servers': switched((machine, links) => machine.switchOver(links)),
  'flip roles': switched((machine, links) => machine.flip(links)),
  'fail over': switched((machine, links) => machine.failOver(links)),
}

/** A job of a kind of its own is enqueued next. */
function special(name: 'killer' | 'stuck' | 'exiting' | 'leaking' | 'spinning'): Make {
  return async ({ producers }, _, begin) => {
    producers[0]!.add(SPECIAL[name])
    begin()
  }
}

/** Tries again while other faults prevent it. */
async function untilBegun(begin: () => void, make: (begin: () => void) => Promise<void>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  let hasBegun = false
  const note = () => {
    hasBegun = true
    begin()
  }
  while (!hasBegun && performance.now() < deadline) {
    await make(note).catch((error) => say(`chaos: a stranger's transaction failed: ${error}`))
    await sleep(200)
  }
}

function strictRole(scene: Scene, { kind, ms }: PlannedFault, begin: () => void): Promise<void> {
  return setRole(() => scene.server, { kind: kind as RoleKind, ms }, begin)
}

/** Another server takes over: links that do not lead to the pooler are pointed at it. */
function switched(make: (machine: Machine, links: readonly FaultProxy[]) => Promise<void>): Make {
  return async ({ machine, fleet, producers, stranger }, _, begin) => {
    const direct = [...fleet.filter(({ isPooled }) => !isPooled), ...producers, stranger]
    await make(
      machine,
      direct.map(({ proxy }) => proxy),
    )
    begin()
  }
}

function signalled(signals: readonly NodeJS.Signals[]): Make {
  return async (scene, fault, begin) => {
    const worker = await workerOf(scene, fault)
    const ended = worker.ended()
    for (const [index, signal] of signals.entries()) {
      if (index > 0) await sleep(150)
      worker.signal(signal)
    }
    begin()
    await ended
  }
}

async function paused(scene: Scene, fault: PlannedFault, begin: () => void): Promise<void> {
  const worker = await workerOf(scene, fault)
  worker.signal('SIGSTOP')
  begin()
  await sleep(fault.ms)
  worker.signal('SIGCONT')
}

async function broken(
  scene: Scene,
  fault: PlannedFault,
  begin: () => void,
  breakLink: (link: FaultProxy) => void,
): Promise<void> {
  const link = linkOf(scene, fault)
  breakLink(link)
  begin()
  await sleep(fault.ms)
  link.heal()
}

/** The server has done the work, and its answer never arrives. */
function lost(to: string, matches: (message: FrontendMessage) => boolean): Make {
  return async (scene, fault, begin) => {
    const link = linkOf(scene, fault)
    const sprung = link.loseAnswerTo(matches).then(() => true)
    const isLost = await Promise.race([sprung, sleep(PATIENCE_MS).then(() => false)])
    if (!isLost) {
      link.forgetTrap()
      return
    }
    begin()
    scene.recorder.write({ ev: 'answer.lost', to })
  }
}

async function workerOf({ fleet }: Scene, { target }: PlannedFault): Promise<FleetWorker> {
  const worker = fleet.find(({ name }) => name === target)
  if (worker === undefined) throw new Error(`the run has no ${target}`)
  await worker.ready()
  return worker
}

function linkOf({ fleet, producers }: Scene, { target }: PlannedFault): FaultProxy {
  const owner = [...fleet, ...producers].find(({ name }) => name === target)
  if (owner === undefined) throw new Error(`the run has no ${target}`)
  return owner.proxy
}

/** Whether the server reports a full disk. */
async function isRefused(sql: pg.Client): Promise<boolean> {
  try {
    await sql.query(`CREATE TABLE ${WITNESS}.filler TABLESPACE ${FILLABLE} AS SELECT generate_series(1, 10000)`)
    await sql.query(`DROP TABLE ${WITNESS}.filler`)
    return false
  } catch (error) {
    return (error as { code?: string }).code === DISK_FULL
  }
}

const OURS = `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' AND backend_type = 'client backend'`

/** Waits until the server answers. A connection may be cut because the server has just noticed the fault. */
async function untilUp(server: PostgresServer): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while ((await onServer(server, (sql) => sql.query('SELECT'))) === null && performance.now() < deadline)
    await sleep(200)
}

/** Right after an immediate stop, resources of its backends may not be free yet. */
async function startAgain(server: PostgresServer): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      await server.start()
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(200)
    }
  }
}
