// Which of the jobs that end are announced for a look at their children, see unblock.ts.

/** A condition on the id of a job that ends. Those with children, which one look at an empty table rules out for all; and every one in
 *  a caller's transaction, whose snapshot may be old and whose commit nobody sees. */
export function hasLinks(id: string, isInTransaction: string): string {
  return `${isInTransaction}::boolean
      OR (SELECT EXISTS (SELECT FROM :schema.parents)) AND EXISTS (SELECT FROM :schema.parents WHERE parents.parent = ${id})`
}
