// Which names mean a secret, and which texts have the form of one. Names are compared by their words: apiKey, api_key, API-KEY and
// apikey are the same; "pin" is a secret and "shipping" is not.

/** Long enough to mean a secret anywhere in a name, written together or apart. */
const STEMS: readonly string[] = [
  ...['password', 'passwd', 'passphrase', 'passcode', 'secret', 'token', 'credential', 'authorization', 'cookie'],
  ...['apikey', 'accesskey', 'privatekey', 'signingkey', 'encryptionkey', 'masterkey', 'sshkey', 'connectionstring'],
  ...['connstring', 'databaseurl', 'cardnumber', 'creditcard', 'securitycode', 'cvv', 'iban', 'sessionid', 'bearer'],
]

/** Secrets only as whole words, because other words contain them. */
const WORDS: ReadonlySet<string> = new Set([
  ...['pass', 'pwd', 'auth', 'pin', 'pins', 'otp', 'totp', 'cvc', 'csc', 'ssn', 'card', 'cards', 'dsn', 'jwt', 'sid'],
  ...['pincode', 'otpcode', 'authcode', 'authkey', 'authheader', 'pan', 'hmac', 'seed', 'mnemonic'],
])

const NAME_LENGTH_MAX = 200
/** Bounded: names repeat, and payloads may hold any number of them. */
const KNOWN_MAX = 5_000
const known = new Map<string, boolean>()

/** True for a name whose value is masked. */
export function isSecretName(name: string): boolean {
  const remembered = known.get(name)
  if (remembered !== undefined) return remembered
  const answer = decide(name.slice(0, NAME_LENGTH_MAX))
  if (known.size >= KNOWN_MAX) known.clear()
  if (name.length <= NAME_LENGTH_MAX) known.set(name, answer)
  return answer
}

function decide(name: string): boolean {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word !== '')
  const together = words.join('')
  return STEMS.some((stem) => together.includes(stem)) || words.some((word) => WORDS.has(word))
}

const NAMING_KEYS = ['name', 'key', 'header', 'field', 'param', 'parameter', 'variable', 'label', 'k', 'n']
const VALUE_KEYS: ReadonlySet<string> = new Set(['value', 'values', 'val', 'v', 'content', 'default', 'data'])

/** For a pair of a name and its value, as `{ name, value }` or `[name, value]`: which of its parts is the secret. */
export function namesSecret(pair: object): (key: string) => boolean {
  if (Array.isArray(pair)) {
    const isPair = pair.length === 2 && typeof pair[0] === 'string' && isSecretName(pair[0])
    return (key) => isPair && key === '1'
  }
  const isNamed = Object.entries(pair).some(
    ([key, name]) => NAMING_KEYS.includes(key.toLowerCase()) && typeof name === 'string' && isSecretName(name),
  )
  return (key) => isNamed && VALUE_KEYS.has(key.toLowerCase())
}

/** True for a path that may lead to a masked value: by a name in it, or as the value of a pair, whose name is not in the path. */
export function mayBeSecretPath(path: readonly string[]): boolean {
  const last = path.at(-1)?.toLowerCase() ?? ''
  return path.some(isSecretName) || VALUE_KEYS.has(last) || last === '1'
}

/** How deeply strings of JSON may be nested before the whole is masked. */
export const TEXT_DEPTH_MAX = 4

const CREDENTIALS_IN_URL = /[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/@:]{0,200}:[^\s/@]{1,500}@/i
const AUTHORIZATION = /^\s*(?:bearer|basic|digest|negotiate)\s+\S/i
const PEM = /-----BEGIN [A-Z ]*PRIVATE KEY-----/

/** True for a text with the form of a secret: an address with a password in it, an authorization, a private key. */
export function isSecretText(text: string): boolean {
  return AUTHORIZATION.test(text) || PEM.test(text) || CREDENTIALS_IN_URL.test(text)
}

/** True for a text that could be JSON with names in it. */
export function looksLikeJson(text: string): boolean {
  return /^\s*[[{"]/.test(text) && /[:,"]/.test(text)
}

const QUOTED_NAME = /"([^"\\]{1,200})\\*"\s*:/g

/** True for a text with secret names in it that is not valid JSON: it is cut off, or holds several values. */
export function mentionsSecret(text: string): boolean {
  for (const [, name] of text.matchAll(QUOTED_NAME)) if (isSecretName(name!)) return true
  return false
}
