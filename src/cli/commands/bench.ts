// holdfast bench: measures this package, the limit of its layout, and its peers. Its arguments go to the lab's own program.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../command.js'

export function addBench(parent: Command, _cli: Cli): void {
  const command = parent
    .command('bench')
    .summary('measure Holdfast, and its peers where they are installed')
    .description('Runs the benchmark of the lab. `holdfast bench -- --help` lists its measures and options.')
    .argument('[words...]', 'arguments of the benchmark, after --')
    .action(async (words: readonly string[]) => {
      const { bench } = await import('../../../lab/bench/program.js')
      process.exitCode = await bench(words)
    })
  addExamples(command, [['holdfast bench -- --quick --contenders holdfast', 'this package alone, in a few minutes']])
}
