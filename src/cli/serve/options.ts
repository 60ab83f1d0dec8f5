// What `holdfast server` can be told, and the options of the HTTP server that come of it.

import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { checkWhole } from '../../core/check.js'
import type { Duration } from '../../core/duration.js'
import { hostCheck, isLoopback } from '../../core/hosts.js'
import { KEY_SCOPES, type KeyScope } from '../../core/operating.js'
import { PROXY_SECRET_HEADER, resolveOptions, type ServerOptions, type TrustedProxy } from '../../server/options.js'
import { duration, names, wholeNumber } from '../arguments.js'
import { environmentOption as option } from '../connection.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

export const PORT_DEFAULT = 4_680

export interface ServerFlags {
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

export function addServerOptions(command: Command): void {
  command
    .addOption(option('--host <address>', 'where to listen (default: localhost, both 127.0.0.1 and ::1)'))
    .addOption(option('--port <port>', `0 takes any that is free (default: ${PORT_DEFAULT})`, wholeNumber))
    .addOption(
      option(
        '--allow-host <names>',
        'a Host it answers to beside localhost, such as queue.example.com; repeatable',
        gatherNames,
      ),
    )
    .addOption(option('--base-path <path>', 'the path a proxy has it under, such as /queue (default: /)'))
    .option('--api-keys', 'say that API keys of the store are the way in: needed to listen beyond this machine')
    .addOption(option('--token-file <file>', 'a file with a token that is good for everything, or HOLDFAST_TOKEN'))
    .addOption(option('--trust-proxy <addresses>', 'proxies that say who asks, such as 10.0.0.7 or 10.0.0.0/8', names))
    .addOption(
      option(
        '--proxy-secret-file <file>',
        `a file with what they send in ${PROXY_SECRET_HEADER}, or HOLDFAST_PROXY_SECRET; needed with --trust-proxy`,
      ),
    )
    .addOption(option('--proxy-header <name>', 'the header they say it in (default: x-forwarded-user)'))
    .addOption(option('--proxy-scope <scopes>', `what those may do: ${KEY_SCOPES.join(', ')} (default: read)`, names))
    .option('--read-only', 'refuse every change, and leave upkeep to others')
    .addOption(option('--environment <name>', 'shown on every page, so that nobody takes production for staging'))
    .addOption(option('--session <duration>', 'how long a sign-in lasts (default: 12h)', duration))
    .addOption(signInFileOption())
    .option('--api-only', 'leave the dashboard out')
    .addOption(new Option('--insecure-no-auth', 'let everybody who reaches it do everything'))
}

/** --sign-in-file. */
export function signInFileOption(): Option {
  return option('--sign-in-file <file>', 'write the address that signs in there, for your eyes only, until it stops')
}

/** Names of an option that may be given several times, or once with commas. */
function gatherNames(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, ...names(text)]
}

/** The options of the server, checked before anything is opened. */
export function readServerOptions(flags: ServerFlags): ServerOptions {
  const token = readToken(flags)
  const proxy = readProxy(flags)
  const options: ServerOptions = {
    ...(flags.basePath === undefined ? {} : { basePath: flags.basePath }),
    ...(flags.allowHost === undefined ? {} : { hosts: flags.allowHost }),
    ...(token === null ? {} : { token }),
    ...(flags.apiKeys === true ? { apiKeys: true } : {}),
    ...(proxy === null ? {} : { proxy }),
    ...(flags.environment === undefined ? {} : { environment: { name: flags.environment } }),
    ...(flags.session === undefined ? {} : { session: flags.session }),
    ...(flags.apiOnly === true ? { dashboard: false } : {}),
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

/** From a file or the environment alone: an argument can be read by everybody on the machine. */
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
      throw new CliError(`--proxy-scope knows ${KEY_SCOPES.join(', ')}, not ${unknown}`, { exitCode: EXIT.usage })
    }
    const secret = readSecret("proxy's secret", proxySecretFile, process.env.HOLDFAST_PROXY_SECRET)
    if (secret === null) {
      throw new CliError(
        '--trust-proxy needs a secret that the proxy shows: its address is that of every program beside it',
        {
          exitCode: EXIT.usage,
          hint: `write \`openssl rand -base64 32\` into a file, give it with --proxy-secret-file, and have the proxy send it in ${PROXY_SECRET_HEADER}`,
        },
      )
    }
    const scopes = proxyScope === undefined ? {} : { scopes: proxyScope }
    return { peers: trustProxy, secret, header: proxyHeader ?? 'x-forwarded-user', ...scopes }
  }
  if (proxySecretFile === undefined && proxyHeader === undefined && proxyScope === undefined) return null
  throw new CliError(
    '--proxy-secret-file, --proxy-header and --proxy-scope are about proxies: give their addresses with --trust-proxy',
    {
      exitCode: EXIT.usage,
    },
  )
}

function checkReach(host: string, hasChosenAuth: boolean): void {
  if (isLoopback(host) || hasChosenAuth) return
  throw new CliError(`the server does not listen on ${host} before it is told how to know who asks`, {
    exitCode: EXIT.usage,
    hint: '--api-keys (make one with `holdfast keys create`), --token-file, --trust-proxy, or --insecure-no-auth to let everybody do everything',
  })
}
