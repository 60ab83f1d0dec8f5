// holdfast server: the HTTP API and the dashboard of a store, until it is told to stop.

import type { Command } from 'commander'
import type { Holdfast } from '../../holdfast.js'
import { isLoopback } from '../../server/hosts.js'
import type { Listening, Server } from '../../server/index.js'
import type { ServerOptions } from '../../server/options.js'
import { addExamples, type Cli, writeJsonLine } from '../command.js'
import { addStoreOptions, type ChosenStore, chooseStore, openStore, type StoreFlags } from '../connection.js'
import { Lifetime } from '../lifetime.js'
import { type Log, openLog } from '../log/log.js'
import { addLogOptions, type LogFlags } from '../log/options.js'
import { atPort } from '../ports.js'
import { addServerOptions, type ServerFlags as OwnFlags, PORT_DEFAULT, readServerOptions } from '../serve/options.js'

interface ServerFlags extends StoreFlags, LogFlags, OwnFlags {}

export function addServer(parent: Command, cli: Cli): void {
  const command = parent
    .command('server')
    .summary('serve the HTTP API and the dashboard')
    .description(
      'Serves the HTTP API and the dashboard of a store, on this machine alone unless told otherwise, and prints an ' +
        'address that signs in once. Like a worker it takes part in upkeep, but not with --read-only. SIGTERM or Ctrl-C ' +
        'stops it: requests under way get five seconds, and it exits with 0. A second signal exits at once.',
    )
    .action((flags: ServerFlags) => serve(cli, flags))
  addServerOptions(command)
  addLogOptions(command)
  addStoreOptions(command, { json: 'print { url, signInUrl, host, port } as one line of JSON, once it listens' })
  addExamples(command, [
    ['holdfast server', 'on this machine: open the address it prints'],
    ['holdfast keys create ops --scope admin', 'a key, for those who come from elsewhere'],
    ['holdfast server --host 0.0.0.0 --allow-host queue.example.com --api-keys', 'for others, with API keys'],
    ['holdfast server --base-path /queue --trust-proxy 10.0.0.7', 'behind a proxy that knows who asks'],
  ])
}

const LEAVING = 'left at once: requests under way were cut off'

async function serve(cli: Cli, flags: ServerFlags): Promise<void> {
  const lifetime = new Lifetime(cli, { signals: ['SIGINT', 'SIGTERM'], onUncaught: () => false, leaving: LEAVING })
  // Before the store is opened: a mistake in an option should not cost a connection.
  const options = readServerOptions(flags)
  // --json is one line about the address; the log goes on beside it.
  const log = await openLog(cli, { ...flags, json: false }, ['http'])
  const store = chooseStore(flags)
  const upkeep = flags.readOnly !== true
  const holdfast = await openStore(store, flags, { ...log.connectOptions, upkeep })
  try {
    holdfast.on(log.hear)
    const server = await makeServer(holdfast, options, log)
    try {
      const listening = await listen(server, flags)
      announce(cli, { flags, log, store, listening, token: server.createToken() })
      await lifetime.over
      log.say('stopping')
    } finally {
      await server.close()
    }
  } finally {
    await holdfast.close()
  }
  log.say('stopped')
}

async function makeServer(holdfast: Holdfast, options: ServerOptions, log: Log): Promise<Server> {
  // Loaded here: no other command needs them.
  const [{ createServer }, { createMetrics }] = await Promise.all([
    import('../../server/index.js'),
    import('../../metrics/index.js'),
  ])
  return createServer(holdfast, { ...options, metrics: createMetrics(holdfast), log: log.served })
}

function listen(server: Server, { host, port = PORT_DEFAULT }: ServerFlags): Promise<Listening> {
  const place = { port, ...(host === undefined ? {} : { host }) }
  return atPort(place, () => server.listen(place))
}

interface Announced {
  readonly flags: ServerFlags
  readonly log: Log
  readonly store: ChosenStore
  readonly listening: Listening
  readonly token: string
}

/** Says where it is. The token is for people, on stderr or in the one line of JSON, and never part of the log. */
function announce(cli: Cli, { flags, log, store, listening, token }: Announced): void {
  const { host, port } = listening
  // Nobody can open the address that stands for all of them.
  const url = listening.url.replace(/^http:\/\/(0\.0\.0\.0|\[::\])(?=:)/, 'http://localhost')
  const signInUrl = flags.insecureNoAuth === true ? url : `${url}/?token=${token}`
  log.say(`serving ${store.shown}`, { store: store.shown, url })
  if (flags.json === true) writeJsonLine(cli, { url, signInUrl, host, port })
  else {
    cli.stderr.line(`open ${cli.stderr.style('cyan', signInUrl)}`)
    if (flags.insecureNoAuth !== true) cli.stderr.line('     (signs in once; API keys sign in as often as you like)')
  }
  if (!isLoopback(host) && flags.allowHost === undefined) {
    cli.stderr.line(`it answers only to localhost:${port}: name the hosts people use with --allow-host`)
  }
}
