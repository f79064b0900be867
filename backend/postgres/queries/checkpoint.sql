-- checkpoint: store state and extend the lease, also one that lapsed untaken.
-- in:   $1 'checkpoint'  $2 work_id  $3 holder_id  $4 fencing_token  $5 ttl in microseconds
--       $6 state, NULL for none  $7 generation, 0 to 999
-- out:  one row when stored; no row when fenced, left, gone or overtaken (why.sql
--       tells which)
-- The generation stands in the microseconds of acquired_at, below its milliseconds:
-- one that was given up must not land over a later one. The greater of the two
-- times: see renew.sql. The cast keeps the server from reading the state as another
-- type, and from quoting it where it cannot.
UPDATE worklease_leases
SET checkpoint  = $6::bytea,
    acquired_at = date_trunc('milliseconds', acquired_at) + $7::bigint * interval '1 microsecond',
    expires_at  = greatest(updated_at, statement_timestamp()) + $5::bigint * interval '1 microsecond',
    updated_at  = greatest(updated_at, statement_timestamp())
WHERE $1::text = 'checkpoint'
  AND work_id = $2 AND holder_id = $3 AND fencing_token = $4
  AND exit_mode IS NULL
  AND extract(microseconds FROM acquired_at)::bigint % 1000 <= $7::bigint
RETURNING 'checkpoint'
