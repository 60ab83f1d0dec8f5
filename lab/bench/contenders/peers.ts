// The peers are installed apart from the product, in lab/peers, and loaded from there.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { say } from '../../say.js'

const FOLDER = join(process.cwd(), 'lab', 'peers')
const require = createRequire(join(FOLDER, 'package.json'))

/** What all peers call their one queue or task. */
export const QUEUE = 'noop'

/** Installs the peers as locked, unless they are there. */
export function installPeers(): void {
  if (existsSync(join(FOLDER, 'node_modules'))) return
  say('installing the peers…')
  const npm = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: FOLDER, encoding: 'utf8' })
  if (npm.status !== 0) throw new Error(`npm ci in lab/peers ended with ${npm.status}: ${npm.stderr}`)
}

/** Loads a peer's package; `Module` is as much of it as the caller uses. */
export async function loadPeer<Module>(name: string): Promise<Module> {
  return (await import(pathToFileURL(require.resolve(name)).href)) as Module
}

/** The installed version of a peer's package. */
export function versionOf(name: string): string {
  try {
    return require(`${name}/package.json`).version
  } catch {
    return 'not installed'
  }
}
