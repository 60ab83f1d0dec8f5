// npm run bench: measures Holdfast, the limit of its layout and its peers on the same servers, one after the other in turns;
// npm run bench -- growth: how Holdfast's cost grows; npm run bench -- dashboard: how long its requests take; npm run bench --
// tenants: what a tenant costs the others; npm run bench -- fleet: this build and another in turns; npm run bench -- host: what
// children cost; npm run bench -- flow: what flow control costs; npm run bench -- failover: what remembering costs. A table for people on stderr and, with --json, one document on stdout.

import { say } from '../say.js'
import { compareBuilds } from '../turns/turns.js'
import { readArguments, USAGE, UsageError } from './arguments.js'
import { compare } from './compare.js'
import { CONTENDERS, isPeer } from './contenders/all.js'
import { hasPeers } from './contenders/peers.js'
import { dashboard } from './dashboard.js'
import { failover } from './failover.js'
import { LOADS } from './flow/loads.js'
import { flow } from './flow.js'
import { GROWTH_MEASURES } from './growth/all.js'
import { growth } from './growth.js'
import { host } from './host.js'
import { MEASURES } from './measures.js'
import { tenants } from './tenants.js'

/** Runs the program that the arguments name; returns the exit code. */
export async function bench(words: readonly string[]): Promise<number> {
  if (words.includes('--help')) {
    say(USAGE)
    return 0
  }
  const contenders = Object.keys(CONTENDERS).filter((name) => hasPeers || !isPeer(name))
  try {
    const chosen = readArguments(words, {
      measures: Object.keys(MEASURES),
      contenders,
      growth: Object.keys(GROWTH_MEASURES),
      flow: LOADS.map(({ name }) => name),
    })
    if (chosen.program === 'dashboard') return await dashboard(chosen)
    if (chosen.program === 'tenants') return await tenants(chosen)
    if (chosen.program === 'fleet') return await compareBuilds(chosen)
    if (chosen.program === 'host') return await host(chosen)
    if (chosen.program === 'flow') return await flow(chosen)
    if (chosen.program === 'failover') return await failover(chosen)
    if (chosen.program === 'growth') return await growth(chosen)
    if (!hasPeers) say(`Peers are measured from a clone of the repository. Here there are: ${contenders.join(', ')}.`)
    return await compare(chosen)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    say(`${error.message}\n\n${USAGE}`)
    return 2
  }
}
