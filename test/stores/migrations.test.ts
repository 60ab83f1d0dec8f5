// The list of migrations: what is in the folder, in order, as strings that survive bundling.

import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { MIGRATIONS } from '../../src/stores/postgres/migrations/index.js'

const FOLDER = new URL('../../src/stores/postgres/migrations/', import.meta.url)

test('every file of the migrations folder is listed, under its number and name, in order', () => {
  const files = readdirSync(FOLDER).filter((file) => /^\d{4}_/.test(file))

  const listed = MIGRATIONS.map(({ number, name }) => `${String(number).padStart(4, '0')}_${name}.ts`)

  expect(listed).toEqual(files.sort())
})
