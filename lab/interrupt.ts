// Being told to end before its time.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const FAILURES = ['unhandledRejection', 'uncaughtException'] as const

/**
 * Calls `close` also when the program is told to end, and ends it then: servers that it started would live on. Returns what
 * closes at the usual end. After a signal that never resolves: what was under way fails as things close, and must not end the
 * program before all are.
 */
export function closeAlsoWhenInterrupted(close: () => Promise<unknown>): () => Promise<void> {
  let isInterrupted = false
  const interrupt = () => {
    isInterrupted = true
    for (const failure of FAILURES) process.on(failure, () => {})
    void close().finally(() => process.exit(130))
  }
  for (const signal of SIGNALS) process.once(signal, interrupt)
  return async () => {
    if (isInterrupted) await new Promise(() => {})
    for (const signal of SIGNALS) process.off(signal, interrupt)
    await close()
  }
}
