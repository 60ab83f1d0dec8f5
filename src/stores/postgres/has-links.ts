// Which of the jobs that end are announced for a look at their children, see unblock.ts.

/** A condition on the id of a job that ends. It is true for jobs with children; when the table of links is empty, that is known for all
 *  of them at the cost of one read. In a caller's transaction it is true for every job, because its snapshot may be old and nobody is
 *  notified of its commit. */
export function hasLinks(id: string, isInTransaction: string): string {
  return `${isInTransaction}::boolean
      OR (SELECT EXISTS (SELECT FROM :schema.parents)) AND EXISTS (SELECT FROM :schema.parents WHERE parents.parent = ${id})`
}
