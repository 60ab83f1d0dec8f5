// Finds PgBouncer, which tests put in front of their servers, and prints its path. With --install it installs Debian's, as root.
import { installPackage, isProgram } from './debian.js'

const INSTALL_MS = 120_000
const PROGRAM = '/usr/sbin/pgbouncer'

const isInstalling = process.argv.includes('--install')
if (!isProgram(PROGRAM) && !(isInstalling && installPackage('pgbouncer', INSTALL_MS) && isProgram(PROGRAM))) {
  console.error(
    'the tests with a pooler need PgBouncer: run `apt-get install -y pgbouncer` as root (`npm run ci` does it when it runs as root on Debian)',
  )
  process.exit(1)
}
console.log(PROGRAM)
