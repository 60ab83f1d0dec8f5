// The dashboard's files as text, so that a program that was bundled has them too: JSON of contents in base64 by path, compressed
// with brotli, in base64. The build writes it here.

export const WEB: string | null = null
