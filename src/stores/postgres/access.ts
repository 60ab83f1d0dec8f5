// How connections show who they are, and how they see who the server is: TLS, and a password that may change, such as a token that is
// valid for minutes.

import { checkKeys } from '../../core/check.js'
import { HoldfastError, invalidOption, isHoldfastError } from '../../core/errors.js'
import { given } from '../../core/given.js'
import type { AccessOptions, PasswordOption, TlsOptions } from './access-options.js'
import type { ConnectionSettings } from './lane.js'

const TLS_TEXTS = ['ca', 'cert', 'key', 'passphrase', 'servername'] as const
const PASSWORD_LENGTH_MAX = 10_000
/** A function that gives no password in this time counts as failed. */
const PASSWORD_MS = 10_000

/** The access of one store: makes the settings of a connection from the URL of its server. */
export class Access {
  /** True takes TLS with the defaults; null leaves it to the URL. In a form that can be sent to another thread. */
  readonly ssl: TlsOptions | boolean | null
  readonly #password: PasswordOption | null

  constructor({ ssl, password }: AccessOptions, urls: readonly string[]) {
    this.ssl = ssl === undefined ? null : checkTls(ssl)
    this.#password = password === undefined ? null : checkPassword(password)
    for (const url of urls) refuseTwice(url, this.ssl !== null, this.#password !== null)
  }

  /** Whether the password is asked for at each connection. */
  get asks(): boolean {
    return typeof this.#password === 'function'
  }

  /** The password for a connection that is opened now; null where the URL has it. Raises `access_denied` when the function fails. */
  async password(): Promise<string | null> {
    const password = this.#password
    if (typeof password !== 'function') return password
    const got = await inTime(password).catch((cause: unknown) => {
      if (isHoldfastError(cause)) throw cause
      const why = cause instanceof Error ? cause.message : String(cause)
      throw noPassword(`it raised: ${why}`, cause)
    })
    if (typeof got === 'string' && got.length > 0 && got.length <= PASSWORD_LENGTH_MAX) return got
    // Not shown: what is wrong about it may be a space around a secret.
    const what = typeof got === 'string' ? `text of ${got.length} characters` : `no text but ${typeof got}`
    throw noPassword(`it gave ${what}, and 1 to ${PASSWORD_LENGTH_MAX} are needed`)
  }

  /** The URL with the password of now. */
  async urlOf(url: string): Promise<string> {
    const password = await this.password()
    return password === null ? url : withPassword(url, password)
  }

  /** Where to connect, and how. */
  async settings(url: string): Promise<ConnectionSettings> {
    const connectionString = await this.urlOf(url)
    return this.ssl === null
      ? { connectionString }
      : { connectionString, ssl: this.ssl as ConnectionSettings['ssl'] & {} }
  }
}

// The driver takes the password of a URL before any other, also an empty one.
function withPassword(url: string, password: string): string {
  const parsed = new URL(url)
  parsed.password = encodeURIComponent(password)
  return parsed.href
}

async function inTime(ask: () => string | Promise<string>): Promise<string> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(noPassword(`it did not answer within ${PASSWORD_MS} ms`)), PASSWORD_MS)
  })
  try {
    return await Promise.race([ask(), late])
  } finally {
    clearTimeout(timer)
  }
}

// Retryable: a service that gives tokens may be away for a while, like the server itself.
function noPassword(why: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    'access_denied',
    `the password function given to connect() has no password for a new connection: ${why}`,
    { retryable: true, ...(cause === undefined ? {} : { cause }) },
  )
}

function checkTls(ssl: unknown): TlsOptions | boolean {
  if (typeof ssl === 'boolean') return ssl
  checkKeys('ssl', ssl, [...TLS_TEXTS, 'rejectUnauthorized'])
  const options = ssl as Readonly<Record<string, unknown>>
  for (const name of TLS_TEXTS) {
    const value = options[name]
    const list = name === 'ca' && Array.isArray(value) ? value : [value]
    const isBytes = name === 'ca' || name === 'cert' || name === 'key'
    if (value === undefined || (list.length > 0 && list.every((one) => isText(one) || (isBytes && isFilled(one)))))
      continue
    throw invalidOption(
      `ssl.${name} must be text${isBytes ? ' in PEM, or a Buffer' : ''}`,
      isText(value) ? '***' : value,
    )
  }
  for (const name of ['ca', 'cert', 'key'] as const) refuseFileName(name, options[name])
  const { cert, key, rejectUnauthorized } = options
  if ((cert === undefined) !== (key === undefined)) throw invalidOption('ssl needs both cert and key, or neither')
  if (rejectUnauthorized !== undefined && typeof rejectUnauthorized !== 'boolean') {
    throw invalidOption('ssl.rejectUnauthorized must be true or false', rejectUnauthorized)
  }
  return given(options) as TlsOptions
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.length > 0
}

function isFilled(value: unknown): boolean {
  return value instanceof Uint8Array && value.length > 0
}

// The most likely mistake: the path of the file in place of what is in it. Node.js would take it for a list of no certificates.
function refuseFileName(name: string, value: unknown): void {
  for (const one of Array.isArray(value) ? value : [value]) {
    if (typeof one !== 'string' || one.includes('-----BEGIN ')) continue
    throw invalidOption(`ssl.${name} must hold a certificate or key in PEM, not the name of its file: read the file`)
  }
}

function checkPassword(password: unknown): PasswordOption {
  if (typeof password === 'function') return password as PasswordOption
  if (typeof password === 'string' && password.length > 0 && password.length <= PASSWORD_LENGTH_MAX) return password
  throw invalidOption(
    `password must be text of 1 to ${PASSWORD_LENGTH_MAX} characters, or a function that gives it, got ${typeof password === 'string' ? `text of ${password.length}` : typeof password}`,
  )
}

function refuseTwice(url: string, hasTls: boolean, hasPassword: boolean): void {
  const { password, searchParams } = new URL(url)
  if (hasPassword && (password !== '' || searchParams.has('password'))) {
    throw invalidOption('a password is in the URL and in the option password: leave one of them out')
  }
  const named = [...searchParams.keys()].find((name) => /^ssl/.test(name))
  if (!hasTls || named === undefined) return
  throw invalidOption(`the URL has ${named}= and the option ssl is given: leave one of them out`)
}
