// Being told to end before its time.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Calls `close` when the program is told to end, and ends it then: servers that it started would live on. Returns how to
 *  take that back. */
export function closeWhenInterrupted(close: () => Promise<unknown>): () => void {
  const end = () => {
    void close().finally(() => process.exit(130))
  }
  for (const signal of SIGNALS) process.once(signal, end)
  return () => {
    for (const signal of SIGNALS) process.off(signal, end)
  }
}
