// Reads a payload from the command line or from stdin.

import { CliError } from '../errors.js'

/** The value of JSON text; `-` reads stdin; no text is null. */
export async function readPayload(text: string | undefined): Promise<unknown> {
  return parsePayload(text === '-' ? await readStdin('the payload', STDIN_BYTES_MAX) : text)
}

function parsePayload(text: string | undefined): unknown {
  if (text === undefined) return null
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new CliError(`the payload must be JSON: ${(cause as Error).message}`, {
      hint: `quote it for the shell, and quote a text for JSON too: '{"to":"ada"}', '"text"', 42`,
      cause,
    })
  }
}

// The largest limit a connection can have. The client checks the store's own limit, which is usually lower.
const STDIN_BYTES_MAX = 64 * 1024 * 1024

/** All of stdin as text. `what` is what it is called in the message when it is too large. */
export async function readStdin(what: string, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    bytes += (chunk as Buffer).length
    if (bytes > bytesMax) throw new CliError(`${what} on stdin is larger than ${bytesMax} bytes`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}
