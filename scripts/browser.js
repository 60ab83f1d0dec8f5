// Finds the Chromium that the dashboard is tested in and prints its path. With --install it installs Debian's where it may.
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
/** An installation is a download of 100 MB and its unpacking. */
const INSTALL_MS = 300_000

const isInstalling = process.argv.includes('--install')
const found = find() ?? (isInstalling ? install() : null)
if (found === null) {
  console.error(
    `the browser tests need a Chromium and none of ${NAMES.join(', ')} is on the PATH: run \`apt-get install -y --no-install-recommends chromium\` as root (\`npm run ci\` does it when it runs as root on Debian), or set HOLDFAST_CHROMIUM to the path of one`,
  )
  process.exit(1)
}
console.log(found)

function find() {
  const chosen = process.env.HOLDFAST_CHROMIUM
  if (chosen) return isAbsolute(chosen) && isProgram(chosen) ? chosen : locate([chosen])
  return locate(NAMES)
}

function locate(names) {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const paths = names.flatMap((name) => folders.map((folder) => join(folder, name)))
  return paths.find(isProgram) ?? null
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function install() {
  if (process.getuid?.() !== 0 || locate(['apt-get']) === null) return null
  console.error('no Chromium here: installing Debian’s')
  const endsAt = performance.now() + INSTALL_MS
  const isInstalled = () => apt(endsAt, 'install', '-y', '--no-install-recommends', 'chromium')
  // The lists of packages may be missing or old; then the first try fails.
  if (isInstalled() || (apt(endsAt, 'update') && isInstalled())) return find()
  return null
}

function apt(endsAt, ...command) {
  const timeout = Math.floor(endsAt - performance.now())
  if (timeout <= 0) return false
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // On stderr: stdout is for the path.
  const { status } = spawnSync('apt-get', ['-q', ...command], { stdio: ['ignore', 2, 2], timeout, env })
  return status === 0
}
