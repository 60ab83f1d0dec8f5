// holdfast completion: a script that lets a shell complete commands and options.

import { Argument, type Command } from 'commander'
import { addExamples, type Cli } from '../command.js'
import { bashScript } from '../completion/bash.js'
import { fishScript } from '../completion/fish.js'
import { type Branch, treeOf } from '../completion/tree.js'
import { zshScript } from '../completion/zsh.js'

const SHELLS: Readonly<Record<string, (root: Branch) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

export function addCompletion(parent: Command, cli: Cli): void {
  const command = parent
    .command('completion')
    .summary('print a script that completes commands in your shell')
    .description('Prints a script that lets a shell complete commands and options. It asks no store.')
    .addArgument(new Argument('<shell>', 'which shell').choices(Object.keys(SHELLS)))
    // By then every command is there.
    .action((shell: string) => cli.stdout.line(SHELLS[shell]!(treeOf(parent))))
  addExamples(command, [
    ['source <(holdfast completion bash)', 'for this shell; in ~/.bashrc for every one'],
    ['holdfast completion zsh > ~/.zfunc/_holdfast', 'zsh, with that folder in $fpath'],
    ['holdfast completion fish > ~/.config/fish/completions/holdfast.fish', 'fish'],
  ])
}
