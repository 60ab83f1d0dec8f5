// The peers are installed apart from the product, in lab/peers of the repository, and loaded from there. The published package
// has no such folder.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { say } from '../../say.js'

// Beside the build folder, or in the repository of the current folder.
const FOLDERS = [join(import.meta.dirname, '../../../..'), process.cwd()].map((root) => join(root, 'lab', 'peers'))
const FOLDER = FOLDERS.find((folder) => existsSync(join(folder, 'package-lock.json'))) ?? null
const require = createRequire(join(FOLDER ?? import.meta.dirname, 'package.json'))

/** The name of the one queue or task of each peer. */
export const QUEUE = 'noop'

/** Whether peers can be measured here: they are in the repository, not in the package. */
export const hasPeers: boolean = FOLDER !== null

/** Installs the peers as locked, unless they are there. */
export function installPeers(): void {
  if (FOLDER === null || existsSync(join(FOLDER, 'node_modules'))) return
  say('installing the peers…')
  const npm = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: FOLDER, encoding: 'utf8' })
  if (npm.status !== 0) throw new Error(`npm ci in lab/peers ended with ${npm.status}: ${npm.stderr}`)
}

/** Loads a peer's package; `Module` is the part that the caller uses. */
export async function loadPeer<Module>(name: string): Promise<Module> {
  return (await import(pathToFileURL(require.resolve(name)).href)) as Module
}

/** The installed version of a peer's package. */
export function versionOf(name: string): string {
  try {
    // Read as a file: not every package exports it.
    return JSON.parse(readFileSync(join(FOLDER ?? '', 'node_modules', name, 'package.json'), 'utf8')).version
  } catch {
    return 'not installed'
  }
}
