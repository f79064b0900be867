-- tokens: how far the sequence is, beside the greatest token that is stored.
-- in:   $1 'tokens'  $2 whether a token may be drawn
-- out:  always one row: the greatest token stored, and the last one drawn, NULL where
--       that cannot be known
-- A role with USAGE alone learns where a sequence stands once it has been drawn from
-- since it was made or restarted. Until then the only way to know is to draw.
SELECT 'tokens',
       coalesce(stored, 0)::bigint,
       coalesce(last_value, CASE WHEN stored > 0 AND $2::boolean THEN nextval('worklease_fencing_seq') END)::bigint
FROM (SELECT max(fencing_token) AS stored FROM worklease_leases WHERE $1::text = 'tokens') AS table_says
LEFT JOIN (
    SELECT last_value
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    JOIN pg_sequences ON schemaname = nspname AND sequencename = relname
    WHERE pg_class.oid = to_regclass('worklease_fencing_seq')::oid
) AS sequence_says ON true
