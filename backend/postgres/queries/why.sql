-- why: what stands in the row that a statement did not write, with a fresh snapshot.
-- in:   $1 'why'  $2 work_id
-- out:  always one row; found is false when there is no lease of that name
-- fresh is false where an earlier statement of the transaction took the snapshot.
-- The casts: see read.sql.
SELECT 'why',
       l.work_id IS NOT NULL AS found,
       coalesce(l.holder_id::text, ''),
       coalesce(l.fencing_token::bigint, 0),
       coalesce(l.exit_mode::text, ''),
       coalesce((extract(epoch FROM least(l.expires_at, statement_timestamp() + interval '290 years') - statement_timestamp()) * 1000000)::bigint, 0),
       current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') AS fresh
FROM (SELECT) AS answer
LEFT JOIN worklease_leases AS l ON $1::text = 'why' AND l.work_id = $2
