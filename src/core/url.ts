// Store URLs in messages. A password must never reach a log.

const LENGTH_MAX = 200

/** A store's URL as it may be shown: user and host stay, passwords become ***. Never raises, whatever the text is. */
export function redactUrl(url: string): string {
  const shown = url
    .slice(0, 10 * LENGTH_MAX)
    // Up to the last @, because people paste passwords with an @ or a slash in them without escaping it.
    .replace(/\/\/(.*)@/s, (_, credentials: string) => `//${redactCredentials(credentials)}@`)
    .replace(/((?:password|passwd|pwd|sslpassword|token|secret)\s*=\s*)[^&\s]*/gi, '$1***')
  return shown.length <= LENGTH_MAX ? shown : `${shown.slice(0, LENGTH_MAX)}…`
}

function redactCredentials(credentials: string): string {
  const colon = credentials.indexOf(':')
  return colon === -1 ? credentials : `${credentials.slice(0, colon)}:***`
}
