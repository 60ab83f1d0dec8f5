// SQL as constants: whole, static, with the schema's name as the only thing that is substituted.

import { createHash } from 'node:crypto'
import { HoldfastError, show } from '../../core/errors.js'

/** One statement. Its name is the first part of that of the prepared statement on a connection. */
export interface Statement {
  readonly name: string
  readonly sql: string
}

/** Makes a statement; `:schema` in it is replaced by the schema's quoted name. */
export function statement(name: string, sql: string): Statement {
  return { name, sql }
}

/** The SQLSTATE of a statement that divides by zero on purpose, so that it takes no effect. */
export const DIVISION_BY_ZERO = '22012'

/** A row as the server sent it: text or null in each column. */
export type Row = readonly (string | null)[]

const IDENTIFIER = /^[a-z_][a-z0-9_]{0,47}$/

/** Raises `invalid_option` unless `name` can be a schema here; 48 characters leave room for names made from it. */
export function checkSchema(name: unknown): string {
  if (typeof name === 'string' && IDENTIFIER.test(name) && !name.startsWith('pg_')) return name
  throw new HoldfastError(
    'invalid_option',
    `schema must be 1 to 48 characters, a lower-case letter or _ followed by lower-case letters, digits or _, not starting with pg_, got ${show(name)}`,
  )
}

/** The text of a statement in a schema. */
export function inSchema(sql: string, schema: string): string {
  return sql.replaceAll(':schema_text', schema).replaceAll(':schema', `"${schema}"`)
}

/**
 * What a statement is prepared as: its name and a hash of its whole text, at most 63 bytes. Behind some poolers others prepare theirs on the
 * same connection: another schema's statement, or another version's, must never be found under the same name.
 */
export function preparedName(name: string, text: string): string {
  if (name === '') return ''
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
  return `${name.slice(0, 46)}_${hash}`
}

/** An array parameter in PostgreSQL's own notation. Much cheaper than the driver's, which asks each value what it is. */
export function arrayOf(values: readonly (string | number | boolean | null)[]): string {
  let text = '{'
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ','
    const value = values[index]
    if (value === null || value === undefined) text += 'NULL'
    else if (typeof value === 'string') text += quote(value)
    else text += value
  }
  return `${text}}`
}

/** An array parameter of values that need no quotes: ids, numbers. */
export function plainArrayOf(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`
}

/** An array parameter for a column whose values are mostly all equal. If they are, the array has just that one value, and the statement
 *  uses it for every row. */
export function sameOrArrayOf(values: readonly string[]): string {
  const [first] = values
  return arrayOf(values.every((value) => value === first) ? [first!] : values)
}

/** An array parameter, or null when every value is the usual one, which the statement then uses. */
export function unlessUsual(values: readonly (string | number | null)[], usual: string | number | null): string | null {
  return values.every((value) => value === usual) ? null : arrayOf(values)
}

/** JSON texts as one JSON array: no quoting here, and each comes out on the other side as it went in. */
export function jsonArrayOf(texts: readonly string[]): string {
  return `[${texts.join(',')}]`
}

function quote(value: string): string {
  if (!value.includes('"') && !value.includes('\\')) return `"${value}"`
  return `"${value.replace(/[\\"]/g, '\\$&')}"`
}

/** Milliseconds of a column that holds them as text, or null. */
export function readMs(value: string | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value)
}

/** A Date of a column that holds milliseconds as text, or null. */
export function readDate(value: string | null | undefined): Date | null {
  const ms = readMs(value)
  return ms === null ? null : new Date(ms)
}

/** The value of a column that holds JSON text, or null. */
export function readJson(value: string | null | undefined): unknown {
  return value === null || value === undefined ? null : JSON.parse(value)
}
