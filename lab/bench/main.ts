// npm run bench: measures Holdfast, the limit of its layout and its peers on the same servers, one after the other in turns;
// npm run bench -- growth: how Holdfast's cost grows. A table for people on stderr and, with --json, one document on stdout.

import { say } from '../say.js'
import { readArguments, USAGE, UsageError } from './arguments.js'
import { compare } from './compare.js'
import { CONTENDERS } from './contenders/all.js'
import { GROWTH_MEASURES } from './growth/all.js'
import { growth } from './growth.js'
import { MEASURES } from './measures.js'

async function main(words: readonly string[]): Promise<number> {
  if (words.includes('--help')) {
    say(USAGE)
    return 0
  }
  try {
    const chosen = readArguments(words, {
      measures: Object.keys(MEASURES),
      contenders: Object.keys(CONTENDERS),
      growth: Object.keys(GROWTH_MEASURES),
    })
    return chosen.program === 'growth' ? await growth(chosen) : await compare(chosen)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    say(`${error.message}\n\n${USAGE}`)
    return 2
  }
}

process.exitCode = await main(process.argv.slice(2))
