-- release: declare an exit and free the lease.
-- in:   $1 'release'  $2 work_id  $3 holder_id  $4 fencing_token  $5 exit mode
-- out:  one row when recorded; no row when fenced, lapsed or gone (why.sql tells which)
-- A second into the past: free also for a statement that began before this one.
UPDATE worklease_leases
SET exit_mode  = $5,
    expires_at = statement_timestamp() - interval '1 second',
    updated_at = greatest(updated_at, statement_timestamp())
WHERE $1::text = 'release'
  AND work_id = $2 AND holder_id = $3 AND fencing_token = $4
  AND exit_mode IS NULL AND expires_at > statement_timestamp()
RETURNING 'release'/*told*/
