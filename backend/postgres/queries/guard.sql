-- guard: keep a lease where it is until the transaction ends.
-- in:   $1 'guard'  $2 work_id  $3 holder_id  $4 fencing_token
-- out:  always one row: whether the lease is live; null when fenced or gone (why.sql
--       tells which)
-- The expiry is no part of the condition: in an old snapshot it may look past, and
-- only the lock tells that the row has changed since (40001). The lock is that of an
-- UPDATE, so that guards of one lease and its renewals take turns: shared locks that
-- overlap would keep a renewal waiting for as long as there are any.
SELECT 'guard', l.live
FROM (SELECT) AS answer
LEFT JOIN (
    SELECT exit_mode IS NULL AND expires_at > statement_timestamp() AS live
    FROM worklease_leases
    WHERE $1::text = 'guard'
      AND work_id = $2 AND holder_id = $3 AND fencing_token = $4
    FOR NO KEY UPDATE
) AS l ON true
