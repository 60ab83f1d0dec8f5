// Ports for servers that go away and come back. The system takes the local ports of outgoing connections from 32768 upwards: there, a port
// whose server is down for a moment may be taken by the very connection that looks for it.

import { once } from 'node:events'
import { createServer } from 'node:net'

const FROM = 20_000
const TO = 32_000
const TRIES = 100

/** A free port that no outgoing connection takes. */
export async function keptPort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = FROM + Math.floor(Math.random() * (TO - FROM))
    if (await isFree(port)) return port
  }
  throw new Error(`no free port was found between ${FROM} and ${TO} in ${TRIES} tries`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return true
  } catch {
    return false
  } finally {
    server.close()
  }
}
