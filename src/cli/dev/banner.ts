// What dev says first: where the store is, what it found there, what runs, how to stop it, what to try.

import { VERSION } from '../../version.js'
import type { SignIn } from '../serve/sign-in.js'
import type { Output } from '../terminal.js'
import { type Found, TICK_SECONDS } from './show.js'

export interface BannerFacts {
  /** As it may be shown. */
  readonly store: string
  readonly isNew: boolean
  /** What stands in the queues of the examples, or null before the first start. */
  readonly found: Found | null
  /** What to open in a browser. */
  readonly dashboard: string
  readonly signIn: Pick<SignIn, 'url' | 'file'>
  /** What there is to know about that address, or null. */
  readonly note: string | null
  readonly types: number
  readonly concurrency: number
  /** What to add to commands so that they find this store, or ''; null for a store no other process can reach. */
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
  if (found !== null) row('found', `${foundText(found)}; going on from there`)
  row('runs', `${types} types of examples, ${concurrency} jobs at once, clean_up every ${TICK_SECONDS} s`)
  row('open', `${out.style('cyan', dashboard)}`)
  row('', out.style('dim', `the dashboard; ${signInText(signIn)}${note === null ? '' : `. ${note}`}`))
  row('stop', 'Ctrl-C lets running jobs finish; the store keeps the rest')
  if (urlOption !== null) {
    row('try', 'in another terminal, in this folder:')
    for (const command of COMMANDS) {
      const line = out.style('cyan', `npx holdfast ${command}${urlOption}`)
      const note = command.startsWith('jobs') ? `  ${out.style('dim', 'the id of a line below is enough')}` : ''
      row('', `  ${line}${note}`)
    }
  }
  out.line()
}

function signInText({ url, file }: Pick<SignIn, 'url' | 'file'>): string {
  if (url !== null) return 'this address signs in once'
  return file === null
    ? 'an address that signs in is printed on a terminal alone, or written with --sign-in-file'
    : `an address that signs in once is in ${file}`
}

function foundText(found: Found): string {
  const parts = (['running', 'ready', 'scheduled', 'retrying', 'blocked', 'dead'] as const)
    .filter((state) => found[state] > 0)
    .map((state) => `${found[state]} ${state}`)
  return parts.length === 0 ? 'no unfinished job' : parts.join(', ')
}
