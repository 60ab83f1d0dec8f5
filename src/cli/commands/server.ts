// holdfast server: the HTTP API and the dashboard of a store, until it is told to stop.

import type { Command } from 'commander'
import { isLoopback } from '../../core/hosts.js'
import type { Holdfast } from '../../holdfast.js'
import type { Listening, Server } from '../../server/index.js'
import type { ServerOptions } from '../../server/options.js'
import { addExamples, type Cli, writeJsonLine } from '../command.js'
import { addStoreOptions, type ChosenStore, chooseStore, openStore, type StoreFlags } from '../connection.js'
import { Lifetime } from '../lifetime.js'
import { type Log, openLog } from '../log/log.js'
import { addLogOptions, type LogFlags } from '../log/options.js'
import { atPort } from '../ports.js'
import { addServerOptions, type ServerFlags as OwnFlags, PORT_DEFAULT, readServerOptions } from '../serve/options.js'
import { offerSignIn, type SignIn } from '../serve/sign-in.js'

interface ServerFlags extends StoreFlags, LogFlags, OwnFlags {}

export function addServer(parent: Command, cli: Cli): void {
  const command = parent
    .command('server')
    .summary('serve the HTTP API and the dashboard')
    .description(
      'Serves the HTTP API and the dashboard of a store, on this machine alone unless told otherwise. On a terminal it ' +
        'prints an address that signs in once; elsewhere, where it would stay in a log, --sign-in-file says where to write ' +
        'it. Like a worker it takes part in upkeep, but not with --read-only. SIGTERM or Ctrl-C ' +
        'stops it: requests under way get five seconds, and it exits with 0. A second signal exits at once.',
    )
    .action((flags: ServerFlags) => serve(cli, flags))
  addServerOptions(command)
  addLogOptions(command)
  addStoreOptions(command, { json: 'print { url, signInFile, host, port } as one line of JSON, once it listens' })
  addExamples(command, [
    ['holdfast server', 'on this machine: open the address it prints'],
    ['holdfast keys create ops --scope admin', 'a key, for those who come from elsewhere'],
    ['holdfast server --host 0.0.0.0 --allow-host queue.example.com --api-keys', 'for others, with API keys'],
    [
      'holdfast server --base-path /queue --trust-proxy 10.0.0.7 --proxy-secret-file proxy-secret',
      'behind a proxy that knows who asks',
    ],
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
      const url = openableUrl(listening)
      const isTerminal = cli.stderr.isTerminal && flags.json !== true
      const signIn = await offerSignIn({ server, url, isTerminal, file: flags.signInFile ?? null })
      try {
        announce(cli, { flags, log, store, listening, url, signIn })
        await lifetime.over
        log.say('stopping')
      } finally {
        await signIn.close()
      }
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
  readonly url: string
  readonly signIn: SignIn
}

/** The address people can open: not the one that stands for all of them. */
function openableUrl(listening: Listening): string {
  return listening.url.replace(/^http:\/\/(0\.0\.0\.0|\[::\])(?=:)/, 'http://localhost')
}

/** Says where it is, and how to sign in. */
function announce(cli: Cli, { flags, log, store, listening, url, signIn }: Announced): void {
  const { host, port } = listening
  log.say(`serving ${store.shown}`, { store: store.shown, url })
  if (flags.json === true) writeJsonLine(cli, { url, signInFile: signIn.file, host, port })
  else announceSignIn(cli, flags, url, signIn)
  if (!isLoopback(host) && flags.allowHost === undefined) {
    cli.stderr.line(`it answers only to localhost:${port}: name the hosts people use with --allow-host`)
  }
}

function announceSignIn(cli: Cli, { insecureNoAuth }: ServerFlags, url: string, signIn: SignIn): void {
  const open = (address: string) => cli.stderr.line(`open ${cli.stderr.style('cyan', address)}`)
  if (insecureNoAuth === true) open(url)
  else if (signIn.url !== null) {
    open(signIn.url)
    cli.stderr.line('     (signs in once; API keys sign in as often as you like)')
  } else open(url)
  if (insecureNoAuth === true) return
  if (signIn.file !== null) cli.stderr.line(`     an address that signs in once is in ${signIn.file}`)
  else if (signIn.url === null) {
    cli.stderr.line(
      '     sign in with an API key (`holdfast keys create`), or start with --sign-in-file for an address;',
    )
    cli.stderr.line('     it is printed on a terminal alone, because this may be kept as a log')
  }
}
