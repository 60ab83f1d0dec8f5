// The store as its own witness: triggers on its tables write each change into a history table, in the transaction of the change.
// They exist in runs of the lab only. They are statement triggers with transition tables: one insert for each statement, however
// many rows.

import type pg from 'pg'

/** The tables for the history and for the effects of handlers. */
export const WITNESS = 'witness'

const TABLES = `
CREATE SCHEMA ${WITNESS};
CREATE SEQUENCE ${WITNESS}.places CACHE 1;
CREATE TABLE ${WITNESS}.changes (
  place   bigint      NOT NULL DEFAULT nextval('${WITNESS}.places'),
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  began   timestamptz NOT NULL DEFAULT now(),
  tx      text        NOT NULL DEFAULT pg_current_xact_id()::text,
  source  text        NOT NULL,
  id      uuid,
  fence   bigint,
  attempt integer,
  crashes integer,
  moment  timestamptz,
  word    text,
  place_in_group bigint,
  facts   json,
  terms   json
);
CREATE TABLE ${WITNESS}.probes (at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE ${WITNESS}.effects_inside  (id uuid NOT NULL, fence bigint NOT NULL, attempt integer NOT NULL);
CREATE TABLE ${WITNESS}.effects_outside (id uuid NOT NULL, fence bigint NOT NULL, attempt integer NOT NULL);`

/** For each recorded change: its table, the operation, and the columns of the history it fills. */
const WATCHED: readonly (readonly [table: string, action: 'INSERT' | 'DELETE', columns: string, values: string])[] = [
  [
    ...(['jobs', 'INSERT', 'id, word, facts'] as const),
    `id, queue, json_build_object('type', type, 'priority', priority, 'options', options, 'key', payload ->> 'key',
                                  'effect', payload ->> 'effect')`,
  ],
  ['ready', 'INSERT', 'id, fence, attempt, crashes', 'id, fence, attempt, crashes'],
  ['held', 'INSERT', 'id, fence, attempt, crashes, place_in_group', 'id, fence, attempt, crashes, position'],
  [
    ...(['scheduled', 'INSERT', 'id, fence, attempt, crashes, moment, word'] as const),
    `id, fence, attempt, crashes, run_at, CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END`,
  ],
  ['blocked', 'INSERT', 'id, moment', 'id, run_at'],
  [
    'running',
    'INSERT',
    'id, fence, attempt, crashes, moment, word',
    'id, fence, attempt, crashes, leased_until, worker',
  ],
  ['running', 'DELETE', 'id, fence, attempt, crashes, moment', 'id, fence, attempt, crashes, leased_until'],
  ['finished', 'INSERT', 'id, fence, attempt, crashes, word', 'id, fence, attempt, crashes, ending::text'],
  ['dead', 'INSERT', 'id, fence, attempt, crashes, word', 'id, fence, attempt, crashes, reason'],
  ['dead', 'DELETE', 'id, fence', 'id, fence'],
  ['ticks', 'INSERT', 'id, moment, word', 'job, tick, schedule'],
]

/** What flow control allows: its table, the columns that identify a row, and those whose change is a change of what is allowed. Others
 *  change with every claim. */
const TERMS: readonly (readonly [table: string, keys: readonly string[], columns: readonly string[]])[] = [
  [
    ...(['limits', ['name']] as const),
    [
      ...['concurrency', 'rate_limit', 'rate_per_ms', 'rate_burst', 'rate_by_cost', 'position', 'probes', 'forced'],
      'not_before',
    ],
  ],
  [
    ...(['flows', ['queue']] as const),
    ['concurrency', 'rate_limit', 'rate_per_ms', 'rate_burst', 'rate_by_cost', 'ordered', 'waits_for_retry'],
  ],
  [
    ...(['groups', ['queue', 'group_name']] as const),
    ['concurrency', 'rate_limit', 'rate_per_ms', 'rate_burst', 'rate_by_cost', 'paused', 'not_before'],
  ],
]

async function watchTerms(sql: pg.Client, schema: string): Promise<void> {
  for (const [table, keys, columns] of TERMS) {
    const on = `"${schema}".${table}`
    const terms = (row: string) =>
      `json_build_object(${[...keys, ...columns].map((name) => `'${name}', ${row}.${name}`).join(', ')})`
    const list = (row: string) => `(${columns.map((name) => `${row}.${name}`).join(', ')})`
    const insert = `INSERT INTO ${WITNESS}.changes (source, terms)`
    const same = keys.map((name) => `former.${name} = changed.${name}`).join(' AND ')
    const bodies = {
      INSERT: `${insert} SELECT '${table}', ${terms('changed')} FROM changed`,
      UPDATE: `${insert} SELECT '${table}', ${terms('changed')} FROM changed JOIN former ON ${same}
                WHERE ${list('changed')} IS DISTINCT FROM ${list('former')}`,
      DELETE: `${insert} SELECT '${table}_gone', ${terms('changed')} FROM changed`,
    }
    const tables = {
      INSERT: 'NEW TABLE AS changed',
      UPDATE: 'OLD TABLE AS former NEW TABLE AS changed',
      DELETE: 'OLD TABLE AS changed',
    }
    for (const action of ['INSERT', 'UPDATE', 'DELETE'] as const) {
      const name = `${table}_${action.toLowerCase()}`
      await sql.query(functionSql(name, bodies[action]))
      await sql.query(triggerSql({ name, on, action, referencing: tables[action] }))
    }
  }
}

/** Makes the witness's tables and sets its triggers on the tables of a schema that is up to date. */
export async function watchSchema(sql: pg.Client, schema: string): Promise<void> {
  await sql.query(TABLES)
  for (const [table, action, columns, values] of WATCHED) {
    const name = `${table}_${action.toLowerCase()}`
    await sql.query(
      functionSql(name, `INSERT INTO ${WITNESS}.changes (source, ${columns}) SELECT '${name}', ${values} FROM changed`),
    )
    const referencing = action === 'INSERT' ? 'NEW' : 'OLD'
    await sql.query(
      triggerSql({ name, on: `"${schema}".${table}`, action, referencing: `${referencing} TABLE AS changed` }),
    )
  }
  await watchTerms(sql, schema)
  const extensions = `
    INSERT INTO ${WITNESS}.changes (source, id, fence, moment, word)
    SELECT CASE WHEN changed.leased_until <> former.leased_until THEN 'extended' ELSE 'cancel_asked' END,
           changed.id, changed.fence, changed.leased_until, changed.worker
      FROM changed JOIN former ON former.id = changed.id
     WHERE changed.leased_until <> former.leased_until OR (changed.cancel_requested AND NOT former.cancel_requested)`
  await sql.query(functionSql('running_update', extensions))
  const both = 'OLD TABLE AS former NEW TABLE AS changed'
  await sql.query(
    triggerSql({ name: 'running_update', on: `"${schema}".running`, action: 'UPDATE', referencing: both }),
  )
  for (const name of ['effects_inside', 'effects_outside']) {
    const insert = `INSERT INTO ${WITNESS}.changes (source, id, fence, attempt) SELECT '${name}', id, fence, attempt FROM changed`
    await sql.query(functionSql(name, insert))
    await sql.query(
      triggerSql({ name, on: `${WITNESS}.${name}`, action: 'INSERT', referencing: 'NEW TABLE AS changed' }),
    )
  }
}

function functionSql(name: string, body: string): string {
  return `CREATE FUNCTION ${WITNESS}.${name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body}; RETURN NULL; END $$`
}

function triggerSql(trigger: { name: string; on: string; action: string; referencing: string }): string {
  const { name, on, action, referencing } = trigger
  return `CREATE TRIGGER witness_${name} AFTER ${action} ON ${on} REFERENCING ${referencing}
          FOR EACH STATEMENT EXECUTE FUNCTION ${WITNESS}.${name}()`
}
