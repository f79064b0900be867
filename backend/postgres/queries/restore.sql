-- restore: put a lease back as it was found.
-- in:   $1 'restore'  $2 work_id  $3 fencing_token
-- out:  always one row; done is false when the row is gone or has another token
-- With no previous holder the row goes; else holder and exit of the previous one
-- return and the lease is free at once (see release.sql). The token stays.
WITH gone AS (
    DELETE FROM worklease_leases
    WHERE $1::text = 'restore'
      AND work_id = $2 AND fencing_token = $3
      AND prev_exit_mode = 'none'
    RETURNING work_id/*told*/
), back AS (
    UPDATE worklease_leases
    SET holder_id  = coalesce(prev_holder_id, ''),
        exit_mode  = nullif(prev_exit_mode, 'expired'),
        expires_at = statement_timestamp() - interval '1 second',
        updated_at = greatest(updated_at, statement_timestamp())
    WHERE $1::text = 'restore'
      AND work_id = $2 AND fencing_token = $3
      AND prev_exit_mode <> 'none'
    RETURNING work_id/*told*/
)
SELECT 'restore', EXISTS (SELECT FROM gone) OR EXISTS (SELECT FROM back) AS done
