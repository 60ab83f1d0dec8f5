// The id of a job that another one enqueued under a name: the same each time.

const SEEDS = [0x243f6a88, 0x85a308d3, 0x13198a2e] as const

/** A UUIDv7 with the time of the parent's, so that they are of one day, and the rest from the name. */
export function childId(parent: string, name: string): string {
  const text = `${parent} ${name}`
  const hash = SEEDS.map((seed) => mix(text, seed).toString(16).padStart(8, '0')).join('')
  const variant = (0x8 | (Number.parseInt(hash[3]!, 16) & 0x3)).toString(16)
  return `${parent.slice(0, 13)}-7${hash.slice(0, 3)}-${variant}${hash.slice(4, 7)}-${hash.slice(7, 19)}`
}

/** 32 bits of a text. Names are not meant to collide; nobody gains by making two that do. */
function mix(text: string, seed: number): number {
  let state = seed
  for (let index = 0; index < text.length; index++) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x9e3779b1)
    state ^= state >>> 15
  }
  state = Math.imul(state ^ (state >>> 16), 0x7feb352d)
  return (state ^ (state >>> 15)) >>> 0
}
