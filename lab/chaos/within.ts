// Nothing in a run waits for ever: what does not come in its time is named, and the run ends with a verdict that says so.

/** What the work resolves to. Raises after `ms` what did not come; the work itself goes on. */
export async function within<T>(what: string, ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
