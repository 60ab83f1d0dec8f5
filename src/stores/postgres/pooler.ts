// Explains the errors of a pooler in front of the server, which otherwise look like network failures.

/** Of a pooler that may have no server connection left. The numbers are those of docs/postgres.md#connections. */
export const POOL_TOO_SMALL =
  'its pool is likely too small: in session mode each connection of Holdfast needs one to the server, up to 13 for a process with one worker, 8 for a producer and 10 for `holdfast server`; raise its pool_size, or use transaction mode'

interface PoolerFault {
  readonly fits: RegExp
  /** False for what stays so until somebody changes the pooler's settings. */
  readonly passes: boolean
  readonly advice: string
}

const FAULTS: readonly PoolerFault[] = [
  {
    fits: /not allowed in statement pooling mode/,
    passes: false,
    advice:
      'this PgBouncer is in statement mode, which allows no transactions: set pool_mode = transaction (or session) for this database',
  },
  {
    fits: /query_wait_timeout/,
    passes: true,
    advice: `the pooler had no server connection free; ${POOL_TOO_SMALL}`,
  },
  {
    fits: /no more connections allowed/,
    passes: true,
    advice: "the pooler takes no more clients: raise PgBouncer's max_client_conn",
  },
]

/** What an error of a pooler means; null for any other. */
export function poolerFault(thrown: unknown): Omit<PoolerFault, 'fits'> | null {
  const { code, message } = (thrown ?? {}) as { code?: unknown; message?: unknown }
  // All of PgBouncer's own errors have this state.
  if (code !== '08P01') return null
  return FAULTS.find(({ fits }) => fits.test(String(message))) ?? null
}
