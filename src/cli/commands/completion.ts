// holdfast completion: a script that lets a shell complete commands and options.

import { Argument, type Command, type Option } from 'commander'
import { addExamples, type Cli } from '../command.js'

const SHELLS: Readonly<Record<string, (root: Branch) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

export function addCompletion(parent: Command, cli: Cli): void {
  const command = parent
    .command('completion')
    .summary('print a script that completes commands in your shell')
    .description('Prints a script that lets a shell complete commands and options. It needs no store.')
    .addArgument(new Argument('<shell>', 'which shell').choices(Object.keys(SHELLS)))
    // When it runs, every command has been added to the parent.
    .action((shell: string) => cli.stdout.line(SHELLS[shell]!(treeOf(parent))))
  addExamples(command, [
    ['source <(holdfast completion bash)', 'for this shell; put it into ~/.bashrc for every shell'],
    ['holdfast completion zsh > ~/.zfunc/_holdfast', 'zsh, with that folder in $fpath'],
    ['holdfast completion fish > ~/.config/fish/completions/holdfast.fish', 'fish'],
  ])
}

/** One command, and those below it. */
interface Branch {
  /** From the program down, without the program: ['jobs', 'list']. */
  readonly path: readonly string[]
  readonly summary: string
  readonly name: string
  readonly options: readonly Choice[]
  /** The choices of its first argument, if it has any. */
  readonly values: readonly string[]
  readonly branches: readonly Branch[]
}

interface Choice {
  readonly flags: readonly string[]
  readonly summary: string
  readonly takesValue: boolean
  readonly values: readonly string[]
}

/** The whole tree of a program. */
function treeOf(command: Command, path: readonly string[] = []): Branch {
  return {
    path,
    summary: command.summary() || command.description(),
    name: command.name(),
    options: [...command.options.filter(({ hidden }) => !hidden).map(choiceOf), HELP],
    values: command.registeredArguments[0]?.argChoices ?? [],
    branches: command.commands.map((below) => treeOf(below, [...path, below.name()])),
  }
}

const HELP: Choice = { flags: ['--help'], summary: 'show its help', takesValue: false, values: [] }

function choiceOf({ short, long, description, required, optional, argChoices }: Option): Choice {
  return {
    flags: [long, short].filter((flag) => flag !== undefined && flag !== null),
    summary: description,
    takesValue: required || optional,
    values: argChoices ?? [],
  }
}

/** The branch and every branch below it. */
function allBranches(root: Branch): readonly Branch[] {
  return [root, ...root.branches.flatMap(allBranches)]
}

/** What can follow a branch: the names of the commands below it and the values of its argument. */
function wordsOf({ branches, values }: Branch): readonly string[] {
  return [...branches.map(({ name }) => name), ...values]
}

/** Text inside single quotes of a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

function pathOf({ path }: Branch): string {
  return path.map((name) => ` ${name}`).join('')
}

/** The script for bash. It finds the command that was typed so far and offers what can follow it. */
function bashScript(root: Branch): string {
  const branches = allBranches(root)
  return `# bash completion of holdfast: source it, or put it where bash-completion looks.
_holdfast() {
  local current previous path word index
  current="\${COMP_WORDS[COMP_CWORD]}"
  previous="\${COMP_WORDS[COMP_CWORD-1]}"
  path=''
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$path $word" in
${steps(branches, 'path')}
    esac
  done
  case "$path|$previous" in
${bashValues(branches)}
  esac
  case "$path" in
${bashOffers(branches)}
  esac
}
complete -o default -F _holdfast holdfast`
}

/** The cases that go from the path of a command to the path of one below it. */
function steps(branches: readonly Branch[], variable: string): string {
  const paths = branches.flatMap((branch) => branch.branches.map((below) => quoted(pathOf(below))))
  return paths.map((path) => `      ${path}) ${variable}=${path} ;;`).join('\n')
}

function bashValues(branches: readonly Branch[]): string {
  const lines = branches.flatMap((branch) =>
    branch.options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, values: known }) => {
        const typed = flags.map((flag) => quoted(`${pathOf(branch)}|${flag}`)).join('|')
        // Where the values are not known, offer the names of files.
        return `    ${typed}) COMPREPLY=($(compgen ${known.length === 0 ? '-f' : `-W ${quoted(known.join(' '))}`} -- "$current")); return ;;`
      }),
  )
  return lines.join('\n')
}

function bashOffers(branches: readonly Branch[]): string {
  return branches
    .map((branch) => {
      const flags = branch.options.flatMap((option) => option.flags.filter((flag) => flag.startsWith('--')))
      const words = quoted([...wordsOf(branch), ...flags].join(' '))
      return `    ${quoted(pathOf(branch))}) COMPREPLY=($(compgen -W ${words} -- "$current")) ;;`
    })
    .join('\n')
}

/** The script for zsh. It offers what can follow the typed command, each word with its summary. */
function zshScript(root: Branch): string {
  const branches = allBranches(root)
  return `#compdef holdfast
# zsh completion of holdfast: put it into a folder of $fpath as _holdfast, or source it after compinit.
_holdfast() {
  local path_ word index
  local -a offers
  path_=''
  for ((index = 2; index < CURRENT; index++)); do
    word="\${words[index]}"
    case "$path_ $word" in
${steps(branches, 'path_')}
    esac
  done
  case "$path_|\${words[CURRENT-1]}" in
${zshValues(branches)}
  esac
  case "$path_" in
${zshOffers(branches)}
  esac
  _describe 'holdfast' offers
}
if [[ "\${funcstack[1]}" == '_holdfast' ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`
}

function zshValues(branches: readonly Branch[]): string {
  return branches
    .flatMap((branch) =>
      branch.options
        .filter(({ takesValue }) => takesValue)
        .map(({ flags, values: known }) => {
          const typed = flags.map((flag) => quoted(`${pathOf(branch)}|${flag}`)).join('|')
          return `    ${typed}) ${known.length === 0 ? '_files' : `compadd -- ${known.map(quoted).join(' ')}`}; return ;;`
        }),
    )
    .join('\n')
}

function zshOffers(branches: readonly Branch[]): string {
  return branches
    .map((branch) => {
      const words = [
        ...branch.branches.map(({ name, summary }) => entry(name, summary)),
        ...branch.values.map((value) => entry(value, '')),
        ...branch.options.map(({ flags, summary }) => entry(flags[0]!, summary)),
      ]
      return `    ${quoted(pathOf(branch))}) offers=(${words.join(' ')}) ;;`
    })
    .join('\n')
}

function entry(word: string, summary: string): string {
  return quoted(summary === '' ? word : `${word}:${summary.replaceAll(':', '\\:')}`)
}

/** The script for fish: one line for each command and option, with the condition under which it is offered. */
function fishScript(root: Branch): string {
  return [
    '# fish completion of holdfast: put it into ~/.config/fish/completions/holdfast.fish',
    AT,
    'complete -c holdfast -f',
    ...allBranches(root).flatMap(linesOf),
  ].join('\n')
}

// True when the typed words, without options, begin with the arguments.
const AT = `function __holdfast_at
  set -l typed (string match -v -- '-*' (commandline -opc)[2..])
  set -l count (count $argv)
  test $count -eq 0; and begin; test (count $typed) -eq 0; return; end
  test (count $typed) -ge $count; and test "$typed[1..$count]" = "$argv"
end`

function linesOf(branch: Branch): readonly string[] {
  const at = `complete -c holdfast -n ${fishQuoted(['__holdfast_at', ...branch.path].join(' '))}`
  const summaries = new Map(branch.branches.map(({ name, summary }) => [name, summary]))
  return [
    ...wordsOf(branch).map((word) => `${at} -a ${fishQuoted(word)} -d ${fishQuoted(summaries.get(word) ?? '')}`),
    ...branch.options.map(({ flags, summary, takesValue, values }) => {
      const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
      const value = !takesValue ? '' : values.length === 0 ? ' -r -F' : ` -x -a ${fishQuoted(values.join(' '))}`
      return `${at} ${names.join(' ')}${value} -d ${fishQuoted(summary)}`
    }),
  ]
}

/** Text inside single quotes of fish, in which a backslash escapes. */
function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
