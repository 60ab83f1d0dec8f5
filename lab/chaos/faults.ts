// How each kind of fault is made. A fault is recorded when it really begins and when it is over. A fault that did not happen is
// not recorded, and then the run does not count.

import type { FleetWorker } from './fleet.js'
import { JOBS } from './load.js'
import { disabledBy, type PlannedFault } from './plan.js'
import type { FaultProxy } from './proxy.js'
import type { FaultKind } from './settings.js'
import { sleep } from './sleep.js'
import type { Make, Scene } from './stage.js'
import type { FrontendMessage } from './wire.js'
import { SPECIAL } from './work.js'

const PATIENCE_MS = 30_000
const SKEW_MS = 3_600_000

/** Makes one fault, with its lines in the record. */
export async function makeFault(scene: Scene, fault: PlannedFault): Promise<void> {
  const { kind, target, index } = fault
  let hasBegun = false
  const storeAt = Date.now()
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
  const make = scene.stage.makers[kind] ?? MAKERS[kind]
  if (make === undefined) throw new Error(`this store has no fault "${kind}"`)
  await make(scene, fault, begin)
  if (hasBegun) scene.recorder.write({ ev: 'fault.end', kind, target, index, storeAt: Date.now() })
}

/** The faults of processes, links and jobs, which are the same on every store. */
const MAKERS: Readonly<Partial<Record<FaultKind, Make>>> = {
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
  'lose answer to claim': lost('claim', callOf('claim')),
  'lose answer to settle': lost('settle', callOf('settle')),
  'lose answer to enqueue': lost('enqueue', callOf('enqueue')),
  // For a handler that settles in its own transaction: effect and settlement are committed, and the handler can't know.
  'lose answer to commit': lost('commit', ({ type, text }) => type === 'Q' && text === 'COMMIT'),
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
}

/** A job of a kind of its own is enqueued next. */
function special(name: 'killer' | 'stuck' | 'exiting' | 'leaking' | 'spinning'): Make {
  return async ({ producers }, _, begin) => {
    producers[0]!.add(SPECIAL[name])
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

/** The call of a function of the store, or a prepared statement of that name. */
function callOf(name: string): (message: FrontendMessage) => boolean {
  return ({ type, text }) => (type === 'B' || type === 'F') && text.startsWith(name)
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
  if (owner.proxy === null) throw new Error(`${target} has no link of its own`)
  return owner.proxy
}
