// The lab's messages for people. Stdout is kept for documents.

// The reader may be gone (a closed terminal, `| head`). The run goes on, and stops its servers at the end.
process.stderr.on('error', () => {})

/** Writes a line to stderr. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
