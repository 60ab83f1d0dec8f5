// Reads a payload from the command line or from stdin.

import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

/** The value of JSON text; `-` reads stdin; no text is null. */
export async function readPayload(text: string | undefined): Promise<unknown> {
  return parsePayload(text === '-' ? await readStdin() : text)
}

function parsePayload(text: string | undefined): unknown {
  if (text === undefined) return null
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new CliError(`the payload must be JSON: ${(cause as Error).message}`, {
      exitCode: EXIT.usage,
      hint: `quote it for the shell, and quote a text for JSON too: '{"to":"ada"}', '"text"', 42`,
      cause,
    })
  }
}

// The largest limit a connection can have. The client checks the store's own limit, which is usually lower.
const STDIN_BYTES_MAX = 64 * 1024 * 1024

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    bytes += (chunk as Buffer).length
    if (bytes > STDIN_BYTES_MAX) {
      throw new CliError(`the payload on stdin is larger than ${STDIN_BYTES_MAX} bytes`, { exitCode: EXIT.usage })
    }
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}
