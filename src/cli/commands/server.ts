// holdfast server: the HTTP API and the dashboard of a store, until it is stopped.

import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { checkWhole } from '../../core/check.js'
import type { Duration } from '../../core/duration.js'
import { given } from '../../core/given.js'
import { hostCheck, isLoopback } from '../../core/hosts.js'
import { KEY_SCOPES, type KeyScope } from '../../core/operating.js'
import type { Listening, Server } from '../../server/index.js'
import { PROXY_SECRET_HEADER, resolveOptions, type ServerOptions, type TrustedProxy } from '../../server/options.js'
import { addExamples, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { collectNames, duration, names, wholeNumber } from '../input/arguments.js'
import {
  addStoreOptions,
  type ChosenStore,
  chooseStore,
  environmentOptions,
  openStore,
  type StoreFlags,
} from '../input/connection.js'
import { Lifetime } from '../lifetime.js'
import { writeJsonLine } from '../output/json.js'
import { addLogOptions, type Log, type LogFlags, openLog } from '../output/log.js'
import { atPort, offerSignIn, openServer, PORT_DEFAULT, type SignIn, signInFileOption } from '../serving.js'

interface ServerFlags extends StoreFlags, LogFlags {
  readonly host?: string
  readonly port?: number
  readonly allowHost?: readonly string[]
  readonly basePath?: string
  readonly apiKeys?: boolean
  readonly tokenFile?: string
  readonly trustProxy?: readonly string[]
  readonly proxySecretFile?: string
  readonly proxyHeader?: string
  readonly proxyScope?: readonly KeyScope[]
  readonly insecureNoAuth?: boolean
  readonly readOnly?: boolean
  readonly environment?: string
  readonly session?: Duration
  readonly signInFile?: string
  readonly apiOnly?: boolean
}

export function addServer(parent: Command, cli: Cli): void {
  const command = parent
    .command('server')
    .summary('serve the HTTP API and the dashboard')
    .description(
      'Serves the HTTP API and the dashboard of a store, on this machine only unless --host is given. In a terminal it ' +
        'prints an address that signs in once; elsewhere the address would stay in a log, so --sign-in-file says where to ' +
        'write it. Like a worker it does upkeep, except with --read-only. SIGTERM or Ctrl-C stops it: open requests get ' +
        'five seconds, and it exits with 0. A second signal exits immediately.',
    )
    .action((flags: ServerFlags) => serve(cli, flags))
  addServerOptions(command)
  addLogOptions(command)
  addStoreOptions(command, { json: 'print { url, signInFile, host, port } as one line of JSON, once it listens' })
  addExamples(command, [
    ['holdfast server', 'on this machine: open the address it prints'],
    ['holdfast keys create ops --scope admin', 'a key, for people on other machines'],
    ['holdfast server --host 0.0.0.0 --allow-host queue.example.com --api-keys', 'for others, with API keys'],
    [
      'holdfast server --base-path /queue --trust-proxy 10.0.0.7 --proxy-secret-file proxy-secret',
      'behind a proxy that authenticates',
    ],
  ])
}

function addServerOptions(command: Command): void {
  const add = environmentOptions(command)
  add('--host <address>', 'where to listen (default: localhost, both 127.0.0.1 and ::1)')
  add('--port <port>', `the port, or 0 for any free one (default: ${PORT_DEFAULT})`, wholeNumber)
  add(
    '--allow-host <names>',
    'a host name it answers to besides localhost, such as queue.example.com; may be repeated',
    collectNames,
  )
  add('--base-path <path>', 'the path a proxy serves it under, such as /queue (default: /)')
  command.option(
    '--api-keys',
    'people and programs sign in with API keys of the store: this or another way is needed to listen beyond this machine',
  )
  add('--token-file <file>', 'a file with a token that allows everything, or HOLDFAST_TOKEN')
  add('--trust-proxy <addresses>', 'proxies that authenticate users, such as 10.0.0.7 or 10.0.0.0/8', names)
  add(
    '--proxy-secret-file <file>',
    `a file with the secret they send in ${PROXY_SECRET_HEADER}, or HOLDFAST_PROXY_SECRET; needed with --trust-proxy`,
  )
  add('--proxy-header <name>', 'the header with the user (default: x-forwarded-user)')
  add('--proxy-scope <scopes>', `what their users may do: ${KEY_SCOPES.join(', ')} (default: read)`, names)
  command.option('--read-only', 'refuse every change, and do no upkeep')
  add('--environment <name>', 'shown on every page, so that production is not taken for staging')
  add('--session <duration>', 'how long a sign-in lasts (default: 12h)', duration)
  command
    .addOption(signInFileOption())
    .option('--api-only', 'serve the API without the dashboard')
    .option('--insecure-no-auth', 'allow everything to everybody who can reach it')
}

const LAST_WORDS = 'stopped immediately: open requests were cut off'

async function serve(cli: Cli, flags: ServerFlags): Promise<void> {
  const lifetime = new Lifetime(cli, { signals: ['SIGINT', 'SIGTERM'], onUncaught: () => false, lastWords: LAST_WORDS })
  // Before the store is opened: a wrong option should not need a connection to be reported.
  const options = readServerOptions(flags)
  // --json prints one line with the address. The log stays on stderr.
  const log = await openLog(cli, { ...flags, json: false }, ['http'])
  const store = chooseStore(flags)
  const upkeep = flags.readOnly !== true
  const holdfast = await openStore(store, flags, { ...log.connectOptions, upkeep })
  try {
    holdfast.on(log.onEvent)
    const server = await openServer(holdfast, { ...options, log: log.onServerEvent })
    try {
      const listening = await listen(server, flags)
      const url = openableUrl(listening)
      const isTerminal = cli.stderr.isTerminal && flags.json !== true
      const signIn = await offerSignIn({ server, url, isTerminal, file: flags.signInFile ?? null })
      try {
        announce(cli, { flags, log, store, listening, url, signIn })
        await lifetime.over
        log.info('stopping')
      } finally {
        await signIn.close()
      }
    } finally {
      await server.close()
    }
  } finally {
    await holdfast.close()
  }
  log.info('stopped')
}

function listen(server: Server, { host, port = PORT_DEFAULT }: ServerFlags): Promise<Listening> {
  const place = { port, ...given({ host }) }
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

/** The address a browser can open: 0.0.0.0 and :: stand for every address of the machine. */
function openableUrl(listening: Listening): string {
  return listening.url.replace(/^http:\/\/(0\.0\.0\.0|\[::\])(?=:)/, 'http://localhost')
}

/** Prints where it listens, and how to sign in. */
function announce(cli: Cli, { flags, log, store, listening, url, signIn }: Announced): void {
  const { host, port } = listening
  log.info(`serving ${store.shown}`, { store: store.shown, url })
  if (flags.json === true) writeJsonLine(cli, { url, signInFile: signIn.file, host, port })
  else announceSignIn(cli, flags, url, signIn)
  if (!isLoopback(host) && flags.allowHost === undefined) {
    cli.stderr.line(`it answers requests to localhost:${port} only: name the host that people use with --allow-host`)
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
      '     sign in with an API key (`holdfast keys create`), or start with --sign-in-file for an address that signs in',
    )
    cli.stderr.line('     (it is printed in a terminal only: other output may be kept as a log)')
  }
}

/** The options of the server, checked. */
function readServerOptions(flags: ServerFlags): ServerOptions {
  const { basePath, allowHost: hosts, apiKeys, environment, session, apiOnly } = flags
  const options: ServerOptions = {
    ...given({ basePath, hosts, apiKeys, session }),
    ...given({ token: readToken(flags) ?? undefined, proxy: readProxy(flags) ?? undefined }),
    ...(environment === undefined ? {} : { environment: { name: environment } }),
    ...(apiOnly === true ? { dashboard: false } : {}),
    readOnly: flags.readOnly === true,
    insecureNoAuth: flags.insecureNoAuth === true,
  }
  if (flags.port !== undefined) checkWhole('port', flags.port, 0, 65_535)
  if (options.hosts !== undefined) hostCheck(options.hosts)
  checkReach(flags.host ?? 'localhost', resolveOptions(options).hasChosenAuth)
  return options
}

function readToken({ tokenFile }: ServerFlags): string | null {
  return readSecret('token', tokenFile, process.env.HOLDFAST_TOKEN)
}

/** From a file or the environment only: every user of the machine can read an argument. */
function readSecret(what: string, file: string | undefined, variable: string | undefined): string | null {
  if (file === undefined) return variable || null
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    throw new CliError(`the ${what} cannot be read from ${file}: ${(cause as Error).message}`, {
      exitCode: EXIT.notFound,
      cause,
    })
  }
}

function readProxy({ trustProxy, proxySecretFile, proxyHeader, proxyScope }: ServerFlags): TrustedProxy | null {
  if (trustProxy !== undefined) {
    const unknown = proxyScope?.find((scope) => !KEY_SCOPES.includes(scope))
    if (unknown !== undefined) {
      throw new CliError(`--proxy-scope must be one of ${KEY_SCOPES.join(', ')}, got ${JSON.stringify(unknown)}`)
    }
    const secret = readSecret("proxy's secret", proxySecretFile, process.env.HOLDFAST_PROXY_SECRET)
    if (secret === null) {
      throw new CliError(
        '--trust-proxy needs a secret that the proxy sends: every other program on its machine has the same address',
        {
          hint: `write \`openssl rand -base64 32\` into a file, give it with --proxy-secret-file, and have the proxy send it in ${PROXY_SECRET_HEADER}`,
        },
      )
    }
    return { peers: trustProxy, secret, header: proxyHeader ?? 'x-forwarded-user', ...given({ scopes: proxyScope }) }
  }
  if (proxySecretFile === undefined && proxyHeader === undefined && proxyScope === undefined) return null
  throw new CliError(
    '--proxy-secret-file, --proxy-header and --proxy-scope are about proxies: give their addresses with --trust-proxy',
  )
}

function checkReach(host: string, hasChosenAuth: boolean): void {
  if (isLoopback(host) || hasChosenAuth) return
  throw new CliError(`to listen on ${host} the server needs a way to sign in`, {
    hint: '--api-keys (make one with `holdfast keys create`), --token-file, --trust-proxy, or --insecure-no-auth to allow everything to everybody',
  })
}
