// Completion for bash.

import { allBranches, type Branch, quoted, wordsOf } from './tree.js'

/** The script. It finds out which command was typed so far and offers what can follow it. */
export function bashScript(root: Branch): string {
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
${steps(branches)}
    esac
  done
  case "$path|$previous" in
${values(branches)}
  esac
  case "$path" in
${offers(branches)}
  esac
}
complete -o default -F _holdfast holdfast`
}

function steps(branches: readonly Branch[]): string {
  return branches
    .flatMap((branch) =>
      branch.branches.map((below) => {
        const above = pathOf(branch)
        const typed = below.names.map((name) => quoted(`${above} ${name}`)).join('|')
        return `      ${typed}) path=${quoted(pathOf(below))} ;;`
      }),
    )
    .join('\n')
}

function values(branches: readonly Branch[]): string {
  const lines = branches.flatMap((branch) =>
    branch.options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, values: known }) => {
        const typed = flags.map((flag) => quoted(`${pathOf(branch)}|${flag}`)).join('|')
        // Of a value that nobody can know, the names of files are as good as anything.
        return `    ${typed}) COMPREPLY=($(compgen ${known.length === 0 ? '-f' : `-W ${quoted(known.join(' '))}`} -- "$current")); return ;;`
      }),
  )
  return lines.join('\n')
}

function offers(branches: readonly Branch[]): string {
  return branches
    .map((branch) => {
      const flags = branch.options.flatMap((option) => option.flags.filter((flag) => flag.startsWith('--')))
      const words = quoted([...wordsOf(branch), ...flags].join(' '))
      return `    ${quoted(pathOf(branch))}) COMPREPLY=($(compgen -W ${words} -- "$current")) ;;`
    })
    .join('\n')
}

function pathOf({ path }: Branch): string {
  return path.map((name) => ` ${name}`).join('')
}
