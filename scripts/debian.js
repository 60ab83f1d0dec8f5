// Installs Debian's packages, as root, with apt-get.
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The first of these programs that is on the PATH, or null. */
export function locate(names) {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const paths = names.flatMap((name) => folders.map((folder) => join(folder, name)))
  return paths.find(isProgram) ?? null
}

export function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** True when the package was installed within `withinMs`. */
export function installPackage(name, withinMs) {
  if (process.getuid?.() !== 0 || locate(['apt-get']) === null) return false
  console.error(`${name} is not here: installing Debian’s`)
  const endsAt = performance.now() + withinMs
  const isInstalled = () => apt(endsAt, 'install', '-y', '--no-install-recommends', name)
  // The lists of packages may be missing or old; then the first try fails.
  return isInstalled() || (apt(endsAt, 'update') && isInstalled())
}

function apt(endsAt, ...command) {
  const timeout = Math.floor(endsAt - performance.now())
  if (timeout <= 0) return false
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // On stderr: stdout is for what the caller prints.
  const { status } = spawnSync('apt-get', ['-q', ...command], { stdio: ['ignore', 2, 2], timeout, env })
  return status === 0
}
