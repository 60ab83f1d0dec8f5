// Finds redis-server, which tests of the Redis store start, and prints its path. With --install it installs Debian's, as root.
import { installPackage, locate } from './debian.js'

const INSTALL_MS = 120_000

const isInstalling = process.argv.includes('--install')
// redis-server itself; the package would also start a service on the usual port, which the tests do not need.
const program =
  locate(['redis-server']) ??
  (isInstalling && installPackage('redis-server', INSTALL_MS) ? locate(['redis-server']) : null)
if (program === null) {
  console.error(
    'the tests of the Redis store need redis-server 7.0 or later: run `apt-get install -y redis-server` as root (`npm run ci` does it when it runs as root on Debian)',
  )
  process.exit(1)
}
console.log(program)
