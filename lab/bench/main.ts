// npm run bench: the benchmark as a program of its own (see program.ts).

import { bench } from './program.js'

process.exitCode = await bench(process.argv.slice(2))
