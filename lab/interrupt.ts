// Ends a program early and cleanly, by a signal.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const FAILURES = ['unhandledRejection', 'uncaughtException'] as const
const INTERRUPTED = 130

/**
 * Opens a resource that outlives the program unless it is closed, such as a server, and returns it with the function that closes
 * it. A signal closes it too and then ends the program, also while it is still opening. After a signal the returned close never
 * resolves: work in progress fails while resources close, and must not end the program before all are closed.
 */
export async function openAndCloseForSure<T>(
  open: () => Promise<T>,
  close: (opened: T) => Promise<unknown>,
): Promise<[opened: T, close: () => Promise<void>]> {
  let isInterrupted = false
  let end = () => {}
  const interrupt = () => {
    isInterrupted = true
    end()
  }
  const listen = () => SIGNALS.forEach((signal) => void process.once(signal, interrupt))
  const stopListening = () => SIGNALS.forEach((signal) => void process.off(signal, interrupt))
  listen()
  let opened: T
  try {
    opened = await open()
  } catch (error) {
    stopListening()
    if (isInterrupted) process.exit(INTERRUPTED)
    throw error
  }
  end = () => {
    for (const failure of FAILURES) process.on(failure, () => {})
    void close(opened).finally(() => process.exit(INTERRUPTED))
  }
  if (isInterrupted) {
    end()
    await new Promise(() => {})
  }
  const closeUnlessInterrupted = async () => {
    if (isInterrupted) await new Promise(() => {})
    stopListening()
    await close(opened)
  }
  return [opened, closeUnlessInterrupted]
}
