// Finds PostgreSQL 15, the oldest version that is supported, and prints where its programs are. With --install it installs
// Debian's, as root. Tests start their own server, not Debian's.
import { installPackage, isProgram } from './debian.js'

const INSTALL_MS = 180_000
const FOLDER = '/usr/lib/postgresql/15/bin'
const isThere = () => isProgram(`${FOLDER}/postgres`)

const isInstalling = process.argv.includes('--install')
if (!isThere() && !(isInstalling && installPackage('postgresql-15', INSTALL_MS) && isThere())) {
  console.error(
    'the tests on PostgreSQL 15 are skipped without it: run `apt-get install -y --no-install-recommends postgresql-15` as root (`npm run ci` does it when it runs as root on Debian)',
  )
  process.exit(1)
}
console.log(FOLDER)
