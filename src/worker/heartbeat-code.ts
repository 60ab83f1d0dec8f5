// The heartbeat thread as text, for programs that a bundler has made one file of: there is no file left to start it from. The
// build writes it here, compressed with brotli, in base64; it holds the driver as well, and is used nowhere else.

export const HEARTBEAT_CODE: string | null = null
