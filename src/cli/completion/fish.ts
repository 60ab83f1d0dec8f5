// Completion for fish.

import { allBranches, type Branch, wordsOf } from './tree.js'

/** The script: one line for each command and option, with the condition under which it is offered. */
export function fishScript(root: Branch): string {
  return [
    '# fish completion of holdfast: put it into ~/.config/fish/completions/holdfast.fish',
    AT,
    'complete -c holdfast -f',
    ...allBranches(root).flatMap(linesOf),
  ].join('\n')
}

// True when the words so far, without options, begin with the arguments and the next is no command below them.
const AT = `function __holdfast_at
  set -l typed (string match -v -- '-*' (commandline -opc)[2..])
  set -l count (count $argv)
  test $count -eq 0; and begin; test (count $typed) -eq 0; return; end
  test (count $typed) -ge $count; and test "$typed[1..$count]" = "$argv"
end`

function linesOf(branch: Branch): readonly string[] {
  const at = `complete -c holdfast -n ${quoted(['__holdfast_at', ...branch.path].join(' '))}`
  const summaries = new Map(branch.branches.flatMap(({ names, summary }) => names.map((name) => [name, summary])))
  return [
    ...wordsOf(branch).map((word) => `${at} -a ${quoted(word)} -d ${quoted(summaries.get(word) ?? '')}`),
    ...branch.options.map(({ flags, summary, takesValue, values }) => {
      const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
      const value = !takesValue ? '' : values.length === 0 ? ' -r -F' : ` -x -a ${quoted(values.join(' '))}`
      return `${at} ${names.join(' ')}${value} -d ${quoted(summary)}`
    }),
  ]
}

/** Text inside single quotes of fish, in which a backslash escapes. */
function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
