// The protocol of PostgreSQL, as far as a proxy reads it.

import type { FrontendMessage, Wire } from '../wire.js'

export const POSTGRES_WIRE: Wire = {
  url: (port) => `postgres://holdfast@127.0.0.1:${port}/postgres`,
  // The server is ready for queries once the connection is open.
  greetings: 1,
  requests: (onMessage) => messageReader(false, onMessage),
  answers: (onAnswer) => messageReader(true, ({ type }) => type === 'Z' && onAnswer()),
}

/** Cuts a stream of the PostgreSQL protocol into messages. The client's first one has no type. */
function messageReader(isServer: boolean, onMessage: (message: FrontendMessage) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let isFirst = !isServer
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      const header = isFirst ? 4 : 5
      if (rest.length < header) return
      const length = rest.readInt32BE(header - 4) + header - 4
      if (rest.length < length) return
      if (!isFirst) onMessage(readMessage(rest.subarray(0, length)))
      // An encryption request is answered by one byte, and then the real first message comes.
      else if (rest.readInt32BE(4) === 80877103) throw new Error('the proxy speaks no TLS')
      isFirst = false
      rest = rest.subarray(length)
    }
  }
}

function readMessage(message: Buffer): FrontendMessage {
  const type = String.fromCharCode(message[0]!)
  // Each sync and each simple query is answered by one ReadyForQuery.
  const isAsked = type === 'S' || type === 'Q'
  if (type === 'Q' || type === 'P') return { type, text: readText(message, 5).text, isAsked }
  // What follows the last _ is a hash of the statement's text.
  if (type === 'B') {
    const { text } = readText(message, readText(message, 5).end)
    return { type, text: text.replace(/_[0-9a-f]{16}$/, ''), isAsked }
  }
  return { type, text: '', isAsked }
}

function readText(message: Buffer, from: number): { text: string; end: number } {
  const zero = message.indexOf(0, from)
  return { text: message.toString('utf8', from, zero), end: zero + 1 }
}
