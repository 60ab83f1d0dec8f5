// What servers say of themselves when they do not come together again, so that the cause can be found after the run is gone.

import { writeFile } from 'node:fs/promises'
import { askText } from './ask.js'
import type { RedisMachine } from './machine.js'

const ASKED: readonly (readonly string[])[] = [
  ['INFO', 'replication'],
  ['INFO', 'persistence'],
  ['CLUSTER', 'INFO'],
  ['CLUSTER', 'NODES'],
]

/** Writes a file with the answers and the last lines of each server. */
export async function writeStandStill(machine: RedisMachine, file: string): Promise<void> {
  const servers = await Promise.all(
    machine.servers.map(async (server) => {
      const answers = server.isRunning ? await Promise.all(ASKED.map((command) => askText(server, command))) : []
      const told = answers.map((text, at) => [ASKED[at]!.join(' '), text.split(/\r?\n/)] as const)
      return {
        port: server.port,
        isRunning: server.isRunning,
        ...Object.fromEntries(told),
        said: server.said.split('\n'),
      }
    }),
  )
  await writeFile(file, JSON.stringify(servers, null, 1))
}
