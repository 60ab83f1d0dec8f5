// What dev prints first: where the store is, what it found there, what runs, how to stop it, what to try.

import { VERSION } from '../../version.js'
import type { Output } from '../output/terminal.js'
import type { SignIn } from '../serving.js'
import { type Found, TICK_SECONDS } from './examples.js'

export interface BannerFacts {
  /** For people: without its password. */
  readonly store: string
  readonly isNew: boolean
  /** What is in the queues of the examples, or null before the first start. */
  readonly found: Found | null
  /** What to open in a browser. */
  readonly dashboard: string
  readonly signIn: Pick<SignIn, 'url' | 'file'>
  /** Something to know about that address, or null. */
  readonly note: string | null
  readonly types: number
  readonly concurrency: number
  /** What other commands need to find this store, or ''; null when no other process can reach it. */
  readonly urlOption: string | null
}

const COMMANDS = ['enqueue greet \'{"name":"you"}\' --queue dev', 'jobs show <id>', 'stats']

export function printBanner(out: Output, facts: BannerFacts): void {
  const { store, isNew, found, dashboard, signIn, note, types, concurrency, urlOption } = facts
  const title = out.style('bold', `Holdfast ${VERSION}`)
  out.line()
  out.line(`  ${title}  a durable job queue, with examples to watch`)
  out.line()
  const row = (label: string, text: string) => out.line(`  ${out.style('dim', label.padEnd(8))}  ${text}`)
  row('store', `${store}${isNew ? ', new' : ''}`)
  if (found !== null) row('found', `${foundText(found)}; it continues with them`)
  row('runs', `${types} types of example jobs, ${concurrency} concurrently, and clean_up every ${TICK_SECONDS} s`)
  row('open', `${out.style('cyan', dashboard)}`)
  row('', out.style('dim', `the dashboard; ${signInText(signIn)}${note === null ? '' : `. ${note}`}`))
  row('stop', 'Ctrl-C lets running jobs finish; the store keeps the rest')
  if (urlOption !== null) {
    row('try', 'in another terminal, in this folder:')
    for (const command of COMMANDS) {
      const line = out.style('cyan', `npx holdfast ${command}${urlOption}`)
      const note = command.startsWith('jobs') ? `  ${out.style('dim', 'with an id from the lines below')}` : ''
      row('', `  ${line}${note}`)
    }
  }
  out.line()
}

function signInText({ url, file }: Pick<SignIn, 'url' | 'file'>): string {
  if (url !== null) return 'this address signs in once'
  return file === null
    ? 'an address that signs in is printed in a terminal only, or written with --sign-in-file'
    : `an address that signs in once is in ${file}`
}

function foundText(found: Found): string {
  const parts = (['running', 'ready', 'scheduled', 'retrying', 'blocked', 'dead'] as const)
    .filter((state) => found[state] > 0)
    .map((state) => `${found[state]} ${state}`)
  return parts.length === 0 ? 'no unfinished job' : parts.join(', ')
}
