// Where a job went when it was settled under one lease: the expression that settle and watch share.

/** A scalar expression over a row `lease (id, fence)`: the state the job was settled into under this very lease, or null. */
export const SETTLED_STATE = `
       coalesce((SELECT ending::text FROM :schema.finished WHERE finished.id = lease.id AND finished.fence = lease.fence),
                (SELECT 'dead' FROM :schema.dead WHERE dead.id = lease.id AND dead.fence = lease.fence),
                (SELECT CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END
                   FROM :schema.scheduled
                  WHERE scheduled.id = lease.id AND scheduled.fence = lease.fence),
                (SELECT 'ready' FROM :schema.ready WHERE ready.id = lease.id AND ready.moved AND ready.fence = lease.fence))`
