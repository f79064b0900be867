-- renew_batch: extend many live leases, waiting for nobody.
-- in:   $1 'renew_batch'  $2 work_ids  $3 holder_ids  $4 fencing_tokens, arrays of one
--       length written as text  $5 ttl in microseconds
-- out:  always one row: a letter for each lease, in the order asked: r renewed,
--       l locked but not to be renewed, m missed: gone, another holder's, or locked
--       by somebody else (why_batch.sql tells which)
-- Locked in one order, and what is locked already is left out: a batch that waited
-- would do so with the locks of all its leases. The greater of the two times: see
-- renew.sql. ANY and IN instead of joins: the planner expects few rows of what was
-- locked and of what is live, and would join them to others row by row.
WITH asked AS (
    SELECT *
    FROM unnest(($2::text)::text[], ($3::text)::text[], ($4::text)::bigint[])
        WITH ORDINALITY AS a (work_id, holder_id, fencing_token, place)
), locked AS (
    SELECT l.work_id, l.holder_id, l.fencing_token
    FROM worklease_leases AS l
    WHERE $1::text = 'renew_batch'
      AND (l.work_id, l.holder_id, l.fencing_token) IN (SELECT work_id, holder_id, fencing_token FROM asked)
    ORDER BY l.work_id
    FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE worklease_leases AS l
    SET expires_at = greatest(l.updated_at, statement_timestamp()) + $5::bigint * interval '1 microsecond',
        updated_at = greatest(l.updated_at, statement_timestamp())
    WHERE l.work_id = ANY (ARRAY(SELECT work_id FROM locked))
      AND l.exit_mode IS NULL AND l.expires_at > statement_timestamp()
    RETURNING l.work_id, l.holder_id, l.fencing_token
)
SELECT 'renew_batch',
       string_agg(CASE WHEN (work_id, holder_id, fencing_token) IN (SELECT * FROM renewed) THEN 'r'
                       WHEN (work_id, holder_id, fencing_token) IN (SELECT * FROM locked) THEN 'l'
                       ELSE 'm' END, '' ORDER BY place)
FROM asked
