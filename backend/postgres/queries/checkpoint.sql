-- checkpoint: store state and extend the lease, also one that lapsed untaken.
-- in:   $1 'checkpoint'  $2 work_id  $3 holder_id  $4 fencing_token  $5 ttl in microseconds
--       $6 state, NULL for none
-- out:  one row when stored; no row when fenced, left or gone (why.sql tells which)
-- The greater of the two times: see renew.sql.
UPDATE worklease_leases
SET checkpoint = $6,
    expires_at = greatest(updated_at, statement_timestamp()) + $5::bigint * interval '1 microsecond',
    updated_at = greatest(updated_at, statement_timestamp())
WHERE $1::text = 'checkpoint'
  AND work_id = $2 AND holder_id = $3 AND fencing_token = $4
  AND exit_mode IS NULL
RETURNING 'checkpoint'
