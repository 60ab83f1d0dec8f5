// The protocol of Redis, as far as a proxy reads it: lists of texts one way, answers of any kind the other.

import type { FrontendMessage, Wire } from '../wire.js'

export const REDIS_WIRE: Wire = {
  url: (port) => `redis://127.0.0.1:${port}`,
  greetings: 0,
  requests: (onMessage) => requestReader(onMessage),
  answers: (onAnswer) => answerReader(onAnswer),
}

/** Reads whole lines and whole texts from a stream. */
class Scanner {
  #rest: Buffer = Buffer.alloc(0)
  #at = 0

  add(chunk: Buffer): void {
    this.#rest = this.#at === this.#rest.length ? chunk : Buffer.concat([this.#rest.subarray(this.#at), chunk])
    this.#at = 0
  }

  /** The next line, without its end; null while it is not complete. */
  line(): string | null {
    const end = this.#rest.indexOf('\r\n', this.#at)
    if (end === -1) return null
    const line = this.#rest.toString('latin1', this.#at, end)
    this.#at = end + 2
    return line
  }

  /** The next text of this length; null while it is not complete. */
  text(length: number): string | null {
    if (this.#rest.length < this.#at + length + 2) return null
    const text = this.#rest.toString('latin1', this.#at, Math.min(this.#at + length, this.#at + 100))
    this.#at += length + 2
    return text
  }
}

/** Each request is a list of texts. Of a call of a function the name is told, without what tells versions apart. */
function requestReader(onMessage: (message: FrontendMessage) => void): (chunk: Buffer) => void {
  const scanner = new Scanner()
  let left = 0
  let length: number | null = null
  let words: string[] = []
  return (chunk) => {
    scanner.add(chunk)
    for (;;) {
      if (left === 0 || length === null) {
        const line = scanner.line()
        if (line === null) return
        if (left === 0) [left, words] = [Number(line.slice(1)), []]
        else length = Number(line.slice(1))
        continue
      }
      const text = scanner.text(length)
      if (text === null) return
      length = null
      if (words.length < 2) words.push(text)
      if (--left === 0) onMessage(messageOf(words))
    }
  }
}

function messageOf([command = '', name = '']: readonly string[]): FrontendMessage {
  const isCall = /^(fcall|fcall_ro)$/i.test(command)
  return { type: isCall ? 'F' : 'C', text: isCall ? name.replace(/^hf\d+_[0-9a-f]+_/, '') : command, isAsked: true }
}

/** Counts answers, whatever is in them. */
function answerReader(onAnswer: () => void): (chunk: Buffer) => void {
  const scanner = new Scanner()
  // How many parts the answer still has, over all lists in it.
  let parts = 0
  let length: number | null = null
  const endPart = () => {
    if (--parts === 0) onAnswer()
  }
  return (chunk) => {
    scanner.add(chunk)
    for (;;) {
      if (length !== null) {
        if (scanner.text(length) === null) return
        length = null
        endPart()
        continue
      }
      const line = scanner.line()
      if (line === null) return
      if (parts === 0) parts = 1
      const size = Number(line.slice(1))
      if (line[0] === '*' && size > 0) parts += size - 1
      else if (line[0] === '$' && size >= 0) length = size
      else endPart()
    }
  }
}
