// Roles with only the rights they need, as a script that the server's administrator runs. The library does not create roles itself,
// because nobody should have to give a program the right to do that.

import { HoldfastError, show } from '../../core/errors.js'
import {
  FUNCTION_RIGHTS,
  type Grant,
  ROLES,
  ROW_RULES,
  type RoleName,
  SEQUENCE_RIGHTS,
  TABLE_RIGHTS,
} from './rights.js'
import { checkSchema } from './statement.js'

export interface RolesScript {
  readonly schema: string
  /** The roles it makes, by what they are for. */
  readonly roles: Readonly<Record<RoleName | 'owner', string>>
  readonly sql: string
}

const PREFIX = /^[a-z_][a-z0-9_]{0,47}$/

/** A script that makes the roles `<prefix>_owner`, `_producer`, `_worker`, `_operator` and `_viewer` and gives each exactly its
 *  rights on a schema that is there. It may be run again, after each migration, and takes away what is too much. */
export function rolesScript({ schema, prefix }: { readonly schema: string; readonly prefix: string }): RolesScript {
  checkSchema(schema)
  if (!PREFIX.test(prefix) || prefix.startsWith('pg_')) {
    throw new HoldfastError(
      'invalid_option',
      `prefix must be 1 to 48 characters, a lower-case letter or _ followed by lower-case letters, digits or _, not starting with pg_, got ${show(prefix)}`,
    )
  }
  const name = (role: RoleName | 'owner') => `${prefix}_${role}`
  const others = ROLES.map((role) => quote(name(role)))
  const sql = [
    header(schema, name('owner')),
    'BEGIN;',
    makeRoles(schema, name('owner'), ROLES.map(name)),
    handOver(schema, name('owner')),
    takeAway(schema, others),
    `GRANT USAGE ON SCHEMA ${quote(schema)} TO ${others.join(', ')};`,
    ...ROLES.map((role) => grants(schema, role, quote(name(role)))),
    dropRules(schema, ROLES.map(name)),
    ...Object.keys(ROW_RULES).map((table) => rules(schema, table, name)),
    'COMMIT;',
  ].join('\n\n')
  const [owner, producer, worker, operator, viewer] = (['owner', ...ROLES] as const).map(name)
  const roles = { owner: owner!, producer: producer!, worker: worker!, operator: operator!, viewer: viewer! }
  return { schema, roles, sql }
}

/** Quotes a name. Names were checked before; quotes are needed for those that are SQL keywords. */
function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

function header(schema: string, owner: string): string {
  return `-- Roles for the schema ${quote(schema)}. Run it as a superuser, or as who owns the schema and may make roles, after the first
-- \`holdfast migrate\` and again after each one that adds a table. Then let your own users be members:
--   GRANT ${quote(owner.replace(/_owner$/, '_worker'))} TO my_worker;
-- owner     migrates, and does the upkeep that makes and drops days
-- producer  enqueues, and sees no payload
-- worker    runs jobs and does the other upkeep
-- operator  the server with the dashboard: everything but owning the tables
-- viewer    looks, and sees no payload, result, log line or schedule`
}

function makeRoles(schema: string, owner: string, others: readonly string[]): string {
  const names = [owner, ...others].map(literal).join(', ')
  return `DO $roles$
DECLARE
  wanted text;
BEGIN
  IF pg_catalog.to_regclass(pg_catalog.format('%I.migrations', ${literal(schema)}::text)) IS NULL THEN
    RAISE EXCEPTION 'schema ${quote(schema)} is not there: run holdfast migrate first';
  END IF;
  FOREACH wanted IN ARRAY ARRAY[${names}]::text[] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname::text = wanted) THEN
      EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
    END IF;
  END LOOP;
  -- Who is no superuser must be a member of the owner to hand tables over to it.
  IF NOT pg_catalog.pg_has_role(${literal(owner)}, 'USAGE') THEN
    GRANT ${quote(owner)} TO CURRENT_USER;
  END IF;
  -- Dropping a day keeps a list of what must live on in a temporary table.
  IF NOT pg_catalog.has_database_privilege(${literal(owner)}, pg_catalog.current_database(), 'TEMPORARY') THEN
    EXECUTE pg_catalog.format('GRANT TEMPORARY ON DATABASE %I TO %I', pg_catalog.current_database(), ${literal(owner)}::text);
  END IF;
END
$roles$;`
}

// One object at a time: REASSIGN OWNED would also reassign what the former owner has in other schemas.
function handOver(schema: string, owner: string): string {
  return `DO $owner$
DECLARE
  command text;
BEGIN
  ALTER SCHEMA ${quote(schema)} OWNER TO ${quote(owner)};
  FOR command IN
    SELECT pg_catalog.format('ALTER TABLE %s OWNER TO %I', pg_class.oid::pg_catalog.regclass, ${literal(owner)}::text)
      FROM pg_catalog.pg_class
     WHERE relnamespace = ${literal(schema)}::pg_catalog.regnamespace
       AND relkind IN ('r', 'p', 'S')
     UNION ALL
    SELECT pg_catalog.format('ALTER FUNCTION %s OWNER TO %I', pg_proc.oid::pg_catalog.regprocedure, ${literal(owner)}::text)
      FROM pg_catalog.pg_proc
     WHERE pronamespace = ${literal(schema)}::pg_catalog.regnamespace
     UNION ALL
    SELECT pg_catalog.format('ALTER TYPE %s OWNER TO %I', pg_type.oid::pg_catalog.regtype, ${literal(owner)}::text)
      FROM pg_catalog.pg_type
     WHERE typnamespace = ${literal(schema)}::pg_catalog.regnamespace
       AND typtype = 'e'
  LOOP
    EXECUTE command;
  END LOOP;
END
$owner$;`
}

function takeAway(schema: string, others: readonly string[]): string {
  const everyone = ['PUBLIC', ...others].join(', ')
  return [
    `REVOKE ALL ON SCHEMA ${quote(schema)} FROM ${everyone};`,
    `REVOKE ALL ON ALL TABLES IN SCHEMA ${quote(schema)} FROM ${everyone};`,
    `REVOKE ALL ON ALL SEQUENCES IN SCHEMA ${quote(schema)} FROM ${everyone};`,
    `REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ${quote(schema)} FROM ${everyone};`,
  ].join('\n')
}

function grants(schema: string, role: RoleName, quoted: string): string {
  const tables = Object.entries(TABLE_RIGHTS)
    .filter(([, rights]) => rights[role].length > 0)
    .map(([table, rights]) => {
      const list = rights[role].map(written).join(', ')
      return `GRANT ${list} ON ${quote(schema)}.${quote(table)} TO ${quoted};`
    })
  const sequences = Object.entries(SEQUENCE_RIGHTS)
    .filter(([, roles]) => roles.includes(role))
    .map(([sequence]) => `GRANT USAGE ON SEQUENCE ${quote(schema)}.${quote(sequence)} TO ${quoted};`)
  const functions = Object.entries(FUNCTION_RIGHTS)
    .filter(([, roles]) => roles.includes(role))
    .map(([signature]) => `GRANT EXECUTE ON FUNCTION ${quote(schema)}.${signature} TO ${quoted};`)
  return [`-- ${role}`, ...tables, ...sequences, ...functions].join('\n')
}

// Rules of an earlier version of this script, by the roles they are for: several prefixes may share a schema.
function dropRules(schema: string, roles: readonly string[]): string {
  return `DO $rules$
DECLARE
  command text;
BEGIN
  FOR command IN
    SELECT pg_catalog.format('DROP POLICY %I ON %I.%I', policyname, schemaname, tablename)
      FROM pg_catalog.pg_policies
     WHERE schemaname = ${literal(schema)}
       AND roles <@ ARRAY[${roles.map(literal).join(', ')}]::name[]
  LOOP
    EXECUTE command;
  END LOOP;
END
$rules$;`
}

/** The rules of one table. With them on, a role without any sees no row, so the others get one that allows all. */
function rules(schema: string, table: string, name: (role: RoleName) => string): string {
  const target = `${quote(schema)}.${quote(table)}`
  const policies = ROLES.filter((role) => TABLE_RIGHTS[table]![role].length > 0).flatMap((role) => {
    const to = quote(name(role))
    const policy = (right: string) =>
      `CREATE POLICY ${quote(`${name(role)} ${right.toLowerCase()}`)} ON ${target} FOR ${right} TO ${to}`
    const own = ROW_RULES[table]![role]
    if (own === undefined) return [`${policy('ALL')} USING (true) WITH CHECK (true);`]
    return own.map(({ right, using, check }) => {
      const parts = [
        using === undefined ? '' : ` USING (${using})`,
        check === undefined ? '' : ` WITH CHECK (${check})`,
      ]
      return `${policy(right)}${parts.join('').replaceAll(':schema', quote(schema))};`
    })
  })
  return [`ALTER TABLE ${target} ENABLE ROW LEVEL SECURITY;`, ...policies].join('\n')
}

function written(grant: Grant): string {
  return typeof grant === 'string' ? grant : `${grant.right} (${grant.columns.map(quote).join(', ')})`
}
