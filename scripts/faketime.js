// Finds the library that lets a test set the clock of a server and prints its path. With --install it installs Debian's, as root.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { installPackage } from './debian.js'

const INSTALL_MS = 120_000

const isInstalling = process.argv.includes('--install')
const found = find() ?? (isInstalling && installPackage('libfaketime', INSTALL_MS) ? find() : null)
if (found === null) {
  console.error(
    "the test of the database's clock needs libfaketime: run `apt-get install -y libfaketime` as root (`npm run ci` does it when it runs as root on Debian)",
  )
  process.exit(1)
}
console.log(found)

function find() {
  if (!existsSync('/usr/lib')) return null
  const places = readdirSync('/usr/lib').map((name) => join('/usr/lib', name, 'faketime/libfaketime.so.1'))
  return places.find((place) => existsSync(place)) ?? null
}
