// A random text that all processes on this schema share.

import type { Database } from './database.js'
import { statement } from './statement.js'

const READ = statement('shared_secret', "SELECT value FROM :schema.secrets WHERE name = 'shared'")
const MAKE = statement(
  'make_shared_secret',
  `
INSERT INTO :schema.secrets (name, value) VALUES ('shared', gen_random_uuid()::text || gen_random_uuid()::text)
    ON CONFLICT DO NOTHING`,
)

/** The migration creates one. If somebody deleted it, a new one is created, and everything encrypted with the old one becomes invalid. */
export async function sharedSecret(db: Database): Promise<string> {
  const [[known] = []] = await db.send('look', READ, [])
  if (known != null) return known
  await db.send('operate', MAKE, [])
  const [[made] = []] = await db.send('look', READ, [])
  return made!
}
