// The dashboard's files as one text, so that bundled programs have them too: JSON of their texts by path, compressed with brotli,
// in base64. The build writes it here.

export const WEB: string | null = null
