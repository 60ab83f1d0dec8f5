// What `import … from 'holdfast/adapters'` gives: a transaction of a database library as the `tx` of enqueue and complete. No library is
// imported: each is known by the shape of what it hands out.

import { invalidOption } from '../core/errors.js'
import type { Queryable } from '../core/job-store.js'

/** A client of `pg` inside a transaction. It can be given as it is; this refuses a pool, whose queries go to any connection. */
export function fromPg(client: Queryable & { readonly totalCount?: number; readonly connect?: unknown }): Queryable {
  checkMethod('fromPg', client, 'query', 'a client on which BEGIN was sent')
  if (typeof client.totalCount !== 'number') return client
  throw invalidOption(
    'fromPg takes a client and not a pool, whose queries go to any connection: take one with pool.connect()',
  )
}

/** The `sql` that postgres.js hands to the function of `sql.begin(…)`. */
export function fromPostgresJs(sql: {
  unsafe(text: string, values: never[]): PromiseLike<readonly object[]>
}): Queryable {
  checkMethod('fromPostgresJs', sql, 'unsafe', 'the sql of sql.begin(…)')
  // Of the sql that opened the connections: a transaction has none.
  if (typeof (sql as { begin?: unknown }).begin === 'function') {
    throw invalidOption('fromPostgresJs takes the sql of a transaction: sql.begin((sql) => … fromPostgresJs(sql))')
  }
  return {
    query: async (text, values) => ({ rows: [...(await sql.unsafe(asText(text), values as never[]))] }),
  }
}

// postgres.js writes each value by the type of its parameter, and would write text that is JSON already as JSON once more. As text, and
// changed to its type by the server, every value is what was given.
function asText(text: string): string {
  const types = new Map<string, string>()
  for (const [, number, type] of text.matchAll(/\$(\d+)::([a-z]\w*)(?![\w[])/g)) types.set(number!, type!)
  // Also where a parameter stands without its type, because it has one elsewhere.
  return text.replace(/\$(\d+)(::[a-z]\w*)?(?![\w[])/g, (found: string, number: string, cast: string | undefined) =>
    types.has(number) ? `$${number}::text${cast ?? `::${types.get(number)}`}` : found,
  )
}

/** The parts of Drizzle's `sql` that are needed: it is given, so that the query is one of the caller's own copy of drizzle-orm. */
export interface DrizzleSql<Sql> {
  raw(text: string): Sql
  param(value: unknown): unknown
  join(chunks: never[]): Sql
}

/** The transaction of `db.transaction(…)` of drizzle-orm/node-postgres or drizzle-orm/postgres-js, and `sql` of drizzle-orm. */
export function fromDrizzle<Sql>(
  tx: { execute(query: Sql): PromiseLike<unknown>; rollback?: unknown },
  sql: DrizzleSql<Sql>,
): Queryable {
  checkMethod('fromDrizzle', tx, 'execute', 'the tx of db.transaction(…)')
  checkMethod('fromDrizzle', sql, 'param', 'sql of drizzle-orm as its second argument')
  if (typeof tx.rollback !== 'function') {
    throw invalidOption('fromDrizzle takes a transaction: db.transaction((tx) => … fromDrizzle(tx, sql))')
  }
  return {
    async query(text, values) {
      // Drizzle numbers parameters itself, so $1, $2, … become its own.
      const chunks = asText(text)
        .split(/\$(\d+)/)
        .map((part, index) => (index % 2 === 0 ? sql.raw(part) : sql.param(values[Number(part) - 1])))
      const answer = await tx.execute(sql.join(chunks as never[]))
      return { rows: Array.isArray(answer) ? [...answer] : (answer as { rows: unknown[] }).rows }
    },
  }
}

/** The transaction of `db.transaction().execute(…)` of Kysely, with its PostgreSQL dialect. */
export function fromKysely(trx: {
  readonly isTransaction: boolean
  executeQuery(query: never): Promise<{ readonly rows: unknown[] }>
}): Queryable {
  checkMethod('fromKysely', trx, 'executeQuery', 'the trx of db.transaction().execute(…)')
  if (!trx.isTransaction) {
    throw invalidOption('fromKysely takes a transaction: db.transaction().execute((trx) => … fromKysely(trx))')
  }
  let queries = 0
  return {
    async query(text, values) {
      // What CompiledQuery.raw of Kysely makes.
      const query = {
        sql: text,
        parameters: values,
        query: { kind: 'RawNode' },
        queryId: { queryId: `holdfast-${++queries}` },
      }
      const { rows } = await trx.executeQuery(query as never)
      return { rows }
    },
  }
}

/** The transaction of `knex.transaction(…)`, with the client pg. */
export function fromKnex(trx: {
  raw(text: string, values: never): PromiseLike<{ readonly rows: unknown[] }>
  readonly isTransaction?: boolean
}): Queryable {
  checkMethod('fromKnex', trx, 'raw', 'the trx of knex.transaction(…)')
  if (trx.isTransaction !== true) {
    throw invalidOption('fromKnex takes a transaction: knex.transaction((trx) => … fromKnex(trx))')
  }
  return {
    async query(text, values) {
      const used: unknown[] = []
      // Knex counts question marks, and takes one that is escaped for an operator.
      const marked = text.replaceAll('?', '\\?').replace(/\$(\d+)/g, (_, number) => {
        used.push(values[Number(number) - 1] ?? null)
        return '?'
      })
      const { rows } = await trx.raw(marked, used as never)
      return { rows }
    },
  }
}

/** The manager of `dataSource.transaction(…)` of TypeORM, or a QueryRunner with a transaction. */
export function fromTypeOrm(manager: {
  readonly queryRunner?: unknown
  query(text: string, values?: never): Promise<unknown>
}): Queryable {
  checkMethod('fromTypeOrm', manager, 'query', 'the manager of dataSource.transaction(…)')
  const runner = (manager.queryRunner ?? manager) as TypeOrmRunner
  if (runner.isTransactionActive !== true) {
    throw invalidOption('fromTypeOrm takes a transaction: dataSource.transaction((manager) => … fromTypeOrm(manager))')
  }
  return {
    query: async (text, values) => ({ rows: (await runner.query(text, values, true)).records }),
  }
}

interface TypeOrmRunner {
  readonly isTransactionActive?: boolean
  query(text: string, values: unknown[], useStructuredResult: true): Promise<{ readonly records: unknown[] }>
}

function checkMethod(name: string, value: unknown, method: string, expected: string): void {
  const isCarrier = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (isCarrier && typeof (value as Record<string, unknown>)[method] === 'function') return
  throw invalidOption(`${name} takes ${expected}`, value)
}
