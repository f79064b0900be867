-- read: what the previous holder left.
-- in:   $1 'read'  $2 work_id  $3 fencing_token
-- out:  always one row; found is false when the row is gone or has another token
-- The casts keep a prepared statement's result type when a column's changes.
SELECT 'read', l.work_id IS NOT NULL AS found, l.checkpoint::bytea,
       l.prev_exit_mode::text, l.prev_holder_id::text
FROM (SELECT) AS answer
LEFT JOIN worklease_leases AS l
    ON $1::text = 'read' AND l.work_id = $2 AND l.fencing_token = $3
