// Random numbers from a seed and nothing else. Each part of a run has its own stream, so one more draw in one part does not change
// what the others draw.

import type { Random } from '../../src/core/ports.js'

/** A stream of random draws. */
export class Chance implements Random {
  readonly #name: string
  #a: number
  #b: number
  #c: number
  #count = 1

  constructor(name: string) {
    this.#name = name
    const mixed = mix(name)
    this.#a = mixed()
    this.#b = mixed()
    this.#c = mixed()
    for (let round = 0; round < 12; round++) this.#next()
  }

  // The sfc32 generator: three words of state and a counter, so that no state repeats within 2³² draws.
  #next(): number {
    const sum = (this.#a + this.#b + this.#count) | 0
    this.#count = (this.#count + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }

  float(): number {
    return this.#next() / 2 ** 32
  }

  fill(target: Uint8Array): void {
    for (let index = 0; index < target.length; index++) target[index] = this.#next() & 0xff
  }

  /** A number from `min` up to, not including, `max`. */
  between(min: number, max: number): number {
    return min + this.float() * (max - min)
  }

  /** A whole number from `min` to `max`, both included. */
  whole(min: number, max: number): number {
    return min + Math.floor(this.float() * (max - min + 1))
  }

  /** True with this probability. */
  happens(probability: number): boolean {
    return this.float() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.float() * list.length)]!
  }

  /** A separate stream for a part of the run. The same name gives the same stream, whatever was drawn here. */
  fork(part: string): Chance {
    return new Chance(`${this.#name}/${part}`)
  }
}

/** Words that depend on every character of the text. */
function mix(text: string): () => number {
  let state = 0x9e3779b9
  for (let index = 0; index < text.length; index++) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x85ebca6b)
    state ^= state >>> 13
  }
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let word = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    word = Math.imul(word ^ (word >>> 15), 0x735a2d97)
    return word ^ (word >>> 15)
  }
}
