// Completion for zsh.

import { allBranches, type Branch, quoted } from './tree.js'

/** The script. It finds out which command was typed so far and offers what can follow it, each with its summary. */
export function zshScript(root: Branch): string {
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
${steps(branches)}
    esac
  done
  case "$path_|\${words[CURRENT-1]}" in
${values(branches)}
  esac
  case "$path_" in
${offers(branches)}
  esac
  _describe 'holdfast' offers
}
if [[ "\${funcstack[1]}" == '_holdfast' ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`
}

function steps(branches: readonly Branch[]): string {
  return branches
    .flatMap((branch) =>
      branch.branches.map((below) => {
        const typed = below.names.map((name) => quoted(`${pathOf(branch)} ${name}`)).join('|')
        return `      ${typed}) path_=${quoted(pathOf(below))} ;;`
      }),
    )
    .join('\n')
}

function values(branches: readonly Branch[]): string {
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

function offers(branches: readonly Branch[]): string {
  return branches
    .map((branch) => {
      const words = [
        ...branch.branches.flatMap(({ names, summary }) => names.map((name) => entry(name, summary))),
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

function pathOf({ path }: Branch): string {
  return path.map((name) => ` ${name}`).join('')
}
