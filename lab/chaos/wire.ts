// What a proxy knows of the protocol of its connections: enough to recognise a request, and to count the answers.

/** A message to the server: its type and, where it has one, the statement's name or text, or the function's name. */
export interface FrontendMessage {
  /** PostgreSQL: 'Q' simple query, 'P' parse, 'B' bind, 'E' execute, 'S' sync, … Redis: 'F' call of a function, 'C' any other command. */
  readonly type: string
  /** Text of a simple query, name of a prepared statement that is bound, as it is in our code, name of a function. */
  readonly text: string
  /** Whether the server answers it by itself. */
  readonly isAsked: boolean
}

export interface Wire {
  url(port: number): string
  /** How many answers a new connection waits for before its first request. */
  readonly greetings: number
  /** Reads what a client sends. */
  requests(onMessage: (message: FrontendMessage) => void): (chunk: Buffer) => void
  /** Reads what the server sends. */
  answers(onAnswer: () => void): (chunk: Buffer) => void
}
