// What the lab says to people. Stdout is kept for documents.

// Whoever listened may have gone (a closed terminal, `| head`). The run goes on, and takes its servers down at the end.
process.stderr.on('error', () => {})

/** Writes a line to stderr. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
