// The events of a server's log. They never hold a payload, token, header or query.

export type ServerEvent =
  | {
      readonly name: 'request'
      readonly requestId: string
      readonly method: string
      /** The route, with {id} for an id; null when there is none. */
      readonly route: string | null
      readonly status: number
      readonly code: string | null
      readonly who: string | null
      readonly tookMs: number
    }
  /** A failure that is ours: the answer was 500. */
  | { readonly name: 'failed'; readonly requestId: string; readonly route: string | null; readonly error: Error }
  | { readonly name: 'signed_in'; readonly who: string; readonly peer: string | null }
  | { readonly name: 'insecure'; readonly text: string }
  | { readonly name: 'listening'; readonly url: string }
