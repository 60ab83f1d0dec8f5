// What `import … from 'holdfast/server'` gives.

export type { Listening, ListenOptions } from './listen.js'
export type { ServerEvent } from './log.js'
export type { NodeHandler } from './node.js'
export type { Metrics, ServerLimits, ServerOptions, TrustedProxy } from './options.js'
export type { MaskPlace } from './redact.js'
export { createServer, type Server } from './server.js'
export type { Identity } from './who.js'
