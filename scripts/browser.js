// Finds the Chromium that the dashboard is tested in and prints its path. With --install it installs Debian's, as root.
import { isAbsolute } from 'node:path'
import { installPackage, isProgram, locate } from './debian.js'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
/** An installation is a download of 100 MB and its unpacking. */
const INSTALL_MS = 300_000

const isInstalling = process.argv.includes('--install')
const found = find() ?? (isInstalling && installPackage('chromium', INSTALL_MS) ? find() : null)
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
