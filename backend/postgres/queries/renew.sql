-- renew: extend a live lease.
-- in:   $1 'renew'  $2 work_id  $3 holder_id  $4 fencing_token  $5 ttl in microseconds
-- out:  one row when renewed; no row when fenced, lapsed or gone (why.sql tells which)
-- The greater of the two times: calls that wait for the row may execute in
-- another order than they were sent.
UPDATE worklease_leases
SET expires_at = greatest(updated_at, statement_timestamp()) + $5::bigint * interval '1 microsecond',
    updated_at = greatest(updated_at, statement_timestamp())
WHERE $1::text = 'renew'
  AND work_id = $2 AND holder_id = $3 AND fencing_token = $4
  AND exit_mode IS NULL AND expires_at > statement_timestamp()
RETURNING 'renew'
