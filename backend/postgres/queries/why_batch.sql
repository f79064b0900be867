-- why_batch: what stands in rows that were not renewed, with a fresh snapshot.
-- in:   $1 'why_batch'  $2 work_ids  $3 holder_ids  $4 fencing_tokens, as for
--       renew_batch.sql
-- out:  always one row: a letter for each lease, in the order asked: f fenced, o over:
--       lapsed or left, s standing
SELECT 'why_batch',
       string_agg(CASE WHEN l.work_id IS NULL THEN 'f'
                       WHEN l.exit_mode IS NOT NULL OR l.expires_at <= statement_timestamp() THEN 'o'
                       ELSE 's' END, '' ORDER BY asked.place)
FROM unnest(($2::text)::text[], ($3::text)::text[], ($4::text)::bigint[])
    WITH ORDINALITY AS asked (work_id, holder_id, fencing_token, place)
LEFT JOIN worklease_leases AS l
    ON $1::text = 'why_batch'
   AND l.work_id = asked.work_id AND l.holder_id = asked.holder_id AND l.fencing_token = asked.fencing_token
