// Rows of keys: whose job a key belongs to, and how the keys of jobs that have ended are freed.
//
// A key has the job that holds it, and maybe that job's successor (`next`), which waits until the holder has ended. Nobody waits for the
// row of a key: a caller's open transaction may have locked it to replace a payload (replace-function.ts). So a settlement that finds it
// locked leaves it as it is, and the reader of the row asks whether its jobs are unfinished.

/** SQL: whether the job is there and has not ended. */
export const isUnfinished = (id: string): string => `(EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = ${id})
              AND NOT EXISTS (SELECT FROM :schema.finished WHERE finished.id = ${id})
              AND NOT EXISTS (SELECT FROM :schema.dead WHERE dead.id = ${id}))`

/** True for a row of keys that lasts as long as its job, while that job or its successor is unfinished. Otherwise the key is free: the
 *  row was locked when its job ended, a table was emptied, or somebody wrote the key by hand. */
export const IS_OF_JOB: string = `(keys.expires_at IS NULL
         AND (${isUnfinished('keys.id')}
           OR keys.next IS NOT NULL AND ${isUnfinished('keys.next')}))`

/** The job a row of keys keeps others away for: the successor when the holder has ended, unless the key lasts for a time. */
export const KEY_JOB: string = `CASE WHEN keys.expires_at IS NULL AND keys.next IS NOT NULL AND NOT ${isUnfinished('keys.id')}
              AND ${isUnfinished('keys.next')} THEN keys.next
             ELSE keys.id END`

/** Frees the keys of these jobs, which have ended. A key with a successor is left to it: it takes the key when it is unblocked. */
export const freeKeys = (ids: string): string => `
  DELETE FROM :schema.keys
   WHERE keys.ctid = ANY (ARRAY(
     SELECT held.ctid
       FROM :schema.keys AS held
      WHERE held.id = ANY (ARRAY(${ids})) AND held.expires_at IS NULL AND held.next IS NULL
        FOR UPDATE SKIP LOCKED))`

/** As `freeKeys`, for jobs that may be successors themselves: their places are free for others. */
export const freeKeysOfWaiting = (ids: string): { readonly freed: string; readonly left: string } => ({
  freed: `
  DELETE FROM :schema.keys
   WHERE keys.ctid = ANY (ARRAY(
     SELECT held.ctid
       FROM :schema.keys AS held
      WHERE held.id = ANY (ARRAY(${ids})) AND held.expires_at IS NULL
        AND (held.next IS NULL OR (held.next IN (${ids})) IS TRUE)
        FOR UPDATE SKIP LOCKED))`,
  left: `
  UPDATE :schema.keys
     SET next = NULL
   WHERE keys.ctid = ANY (ARRAY(
     SELECT held.ctid
       FROM :schema.keys AS held
      WHERE held.next = ANY (ARRAY(${ids})) AND (held.id NOT IN (${ids})) IS TRUE
        FOR UPDATE SKIP LOCKED))`,
})
