// The lab's own commands to a server, past all links, each on a connection of its own: a server that stands still holds up nothing else.

import { openConnection } from '../../../src/stores/redis/node-redis.js'
import type { Reply } from '../../../src/stores/redis/port.js'
import { sleep } from '../sleep.js'
import { within } from '../within.js'

const ANSWER_MS = 3_000

interface Server {
  readonly port: number
}

/** Sends one command and returns its answer. Raises after `ms` without one. */
export async function ask(
  { port }: Server,
  command: readonly (string | number)[],
  ms: number = ANSWER_MS,
): Promise<Reply> {
  const connection = await openConnection({ url: `redis://127.0.0.1:${port}`, connectMs: ms })
  try {
    return await within(`${command[0]} on port ${port} is answered`, ms, connection.send(command.map(String)))
  } finally {
    connection.destroy()
  }
}

/** The answer as text; '' when there is none. */
export async function askText(server: Server, command: readonly (string | number)[]): Promise<string> {
  return ask(server, command).then(String, () => '')
}

/** Waits until it is so. Raises when that takes longer than `ms`. */
export async function until(what: string, isSo: () => Promise<boolean>, ms = 30_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`)
    await sleep(50)
  }
}
