-- sweep: delete one batch of the rows that nobody needs any more, oldest first.
-- in:   $1 'sweep'  $2 retention in microseconds  $3 whether lapsed leases with no
--       declared exit go too  $4 the most rows to delete  $5 where the batch
--       before ended, in epoch microseconds
-- out:  always one row: how many were deleted, and where this batch ended
-- Rows that somebody has locked are left for the next sweep.
WITH doomed AS (
    SELECT work_id, updated_at
    FROM worklease_leases
    WHERE $1::text = 'sweep'
      AND updated_at >= 'epoch'::timestamptz + $5::bigint * interval '1 microsecond'
      AND updated_at < statement_timestamp() - $2::bigint * interval '1 microsecond'
      AND expires_at <= statement_timestamp()
      AND (exit_mode = 'retired' OR ($3::boolean AND exit_mode IS NULL))
    ORDER BY updated_at
    LIMIT $4::bigint
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM worklease_leases AS l
    USING doomed
    WHERE l.work_id = doomed.work_id
    RETURNING doomed.updated_at
)
SELECT 'sweep', count(*), coalesce((extract(epoch FROM max(updated_at)) * 1000000)::bigint, 0)
FROM gone
