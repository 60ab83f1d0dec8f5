// The payloads of the benchmark's jobs.

/** A small payload, as most are. */
export const PAYLOAD: { readonly to: string; readonly template: string; readonly n: number } = {
  to: 'ada@example.com',
  template: 'welcome',
  n: 1,
}

/** A payload of 1,024 bytes as JSON, without repetition, so that compressing it gains nothing. */
export const PAYLOAD_1KB: { readonly n: number; readonly text: string } = { n: 1, text: textOf(1_024 - 17) }

function textOf(length: number): string {
  let text = ''
  for (let n = 1; text.length < length; n++) text += ((n * 2_654_435_761) % 4_294_967_296).toString(36)
  return text.slice(0, length)
}
