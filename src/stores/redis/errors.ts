// What a failure of Redis or of the connection means to a caller: one table, by the first word of the server's error.

import { type ErrorCode, HoldfastError, isHoldfastError } from '../../core/errors.js'
import { serverError } from './port.js'
import { LAYOUT } from './work.js'

interface Meaning {
  readonly code: ErrorCode
  /** The same call may succeed later. It may also have taken effect already: calls are safe to repeat. */
  readonly retryable: boolean
  readonly advice: string
}

const UNAVAILABLE: Meaning = {
  code: 'store_unavailable',
  retryable: true,
  advice: 'the call is safe to repeat once the server is back',
}

function unavailable(advice: string): Meaning {
  return { ...UNAVAILABLE, advice }
}

function denied(advice: string): Meaning {
  return { code: 'access_denied', retryable: false, advice }
}

function refused(advice: string): Meaning {
  return { code: 'store_refused', retryable: false, advice }
}

const BY_WORD: Readonly<Record<string, Meaning>> = {
  READONLY: { code: 'store_read_only', retryable: true, advice: 'this server is a replica: connect to the primary' },
  LOADING: unavailable('the server is still loading its data; the call is safe to repeat'),
  MASTERDOWN: unavailable('the replica has lost its primary: connect to the primary'),
  CLUSTERDOWN: unavailable('the cluster has no master for these keys now; the call is safe to repeat'),
  TRYAGAIN: unavailable('the call is safe to repeat'),
  BUSY: unavailable('another script has run for long: see SCRIPT KILL and FUNCTION KILL'),
  // WAIT was interrupted, because the server has become a replica: the write before it may not last.
  UNBLOCKED: unavailable('the server became a replica meanwhile; the call may or may not last, and is safe to repeat'),
  NOREPLICAS: unavailable('min-replicas-to-write is not met: bring a replica back; nothing was written'),
  MISCONF: unavailable('the server cannot write to its disk: free some space and see its log; nothing was written'),
  // Not to be repeated: it lasts until somebody acts, and the caller of an enqueue must learn of it now.
  OOM: refused(
    'maxmemory is reached: raise it, or let workers finish jobs and retention drop them; nothing was written',
  ),
  NOAUTH: denied('put user and password into the URL: redis://user:password@host:6379'),
  WRONGPASS: denied('check user and password'),
  NOPERM: denied('the ACL user lacks a command or a key pattern: docs/redis.md has the rule it needs'),
  DENIED: denied('the server is in protected mode: give it a password, or bind it to an address of its own'),
  WRONGTYPE: refused(
    'a key under our prefix holds something else: another program uses it, so give Holdfast a prefix of its own; nothing was written',
  ),
  MOVED: clustered('this is a node of a Redis Cluster: write redis+cluster:// with the addresses of its nodes'),
  ASK: unavailable('its slot is being moved to another node; the call was not run, and is safe to repeat'),
  CROSSSLOT: clustered('this is a node of a Redis Cluster: write redis+cluster:// with the addresses of its nodes'),
  HFMISSING: {
    code: 'schema_missing',
    retryable: false,
    advice:
      'its keys are gone (FLUSHALL, FLUSHDB, or another database number) or were never made: connect again to begin anew',
  },
  HFLAYOUT: {
    code: 'schema_too_new',
    retryable: false,
    advice: `this version reads layout ${LAYOUT}: upgrade the package before starting it`,
  },
}

function clustered(advice: string): Meaning {
  return { code: 'unsupported', retryable: false, advice }
}

const UNDECIDED = unavailable(
  'the nodes of the cluster do not agree yet which of them has this slot; the call was not run, and is safe to repeat',
)

const WORD = /^-?([A-Z][A-Z0-9]+)\b/

/** The first word of a server's error, or null for a failure of the connection. */
export function errorWord(thrown: unknown): string | null {
  const said = serverError(thrown) ?? serverError((thrown as Error)?.cause)
  return said === null ? null : (WORD.exec(said)?.[1] ?? 'ERR')
}

/** What the first word of a server's error means; null stands for a failure of the connection. */
function meaningOf(word: string | null, thrown: unknown): Meaning {
  if (word === null) return UNAVAILABLE
  // What the ACL forbids inside a function has no word of its own.
  if (/^ERR The user executing the script can't/.test(serverError(thrown) ?? '')) {
    return denied('the ACL user lacks a command, a key pattern or a channel: docs/redis.md has the rule it needs')
  }
  return (
    BY_WORD[word] ??
    refused('this is a fault of Holdfast or of the values given: parts of the call may have been written')
  )
}

/** The HoldfastError for whatever a call raised. `isAgain` is told of one that was sent again until its time was over: MOVED means then that
 *  the nodes of a cluster do not agree yet, and not that the URL is wrong. */
export function storeError(doing: string, thrown: unknown, isAgain = false): HoldfastError {
  const word = errorWord(thrown)
  const meaning = isAgain && word === 'MOVED' ? UNDECIDED : meaningOf(word, thrown)
  return translate(`Redis could not ${doing}`, thrown, meaning)
}

/** The HoldfastError for a connection that could not be opened. `where` names the server, without its password. */
export function connectError(where: string, thrown: unknown): HoldfastError {
  const word = errorWord(thrown)
  const meaning =
    word === null ? unavailable('start the server, or check host, port and network') : meaningOf(word, thrown)
  return translate(`cannot connect to Redis at ${where}`, thrown, meaning)
}

function translate(what: string, thrown: unknown, meaning: Meaning): HoldfastError {
  if (isHoldfastError(thrown)) return thrown
  return new HoldfastError(meaning.code, `${what}: ${saidBy(thrown)}; ${meaning.advice}`, {
    cause: thrown,
    retryable: meaning.retryable,
    details: { redisError: errorWord(thrown) },
  })
}

// A host with several addresses fails with one error for each, and a message of its own that is empty.
function saidBy(thrown: unknown): string {
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return saidBy(thrown.errors[0])
  const said = thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
  // Behind the message Redis says in which line of which function it was raised.
  return said.replace(/ script: .*$/s, '').slice(0, 500)
}
