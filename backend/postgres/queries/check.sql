-- check: what there is of the schema, and what this role and its sessions may do.
-- in:   $1 'check'  $2 names of the columns  $3 their types, in the same order
-- out:  always one row, see check.go; texts are empty where there is nothing to say
-- It reads the catalogs alone, which every role may. A column privilege is there too
-- where the table's is.
WITH place AS (
    SELECT to_regclass('worklease_leases')::oid AS leases, s.*
    FROM (SELECT) AS answer
    LEFT JOIN pg_sequence AS s ON s.seqrelid = to_regclass('worklease_fencing_seq')::oid
), columns AS (
    SELECT string_agg(name || ' ' || type, ', ') FILTER (WHERE attnum IS NULL) AS missing,
           string_agg(name || ' is ' || format_type(atttypid, NULL) || ', not ' || type, ', ')
               FILTER (WHERE atttypid <> to_regtype(type) AND NOT (type = 'TEXT' AND atttypid = 'varchar'::regtype)) AS other,
           bool_and(has_column_privilege(leases, attnum, 'SELECT')) AS may_select,
           bool_and(has_column_privilege(leases, attnum, 'INSERT')) AS may_insert,
           bool_and(has_column_privilege(leases, attnum, 'UPDATE')) AS may_update
    FROM place
    CROSS JOIN unnest($2::text[], $3::text[]) AS want(name, type)
    LEFT JOIN pg_attribute ON attrelid = leases AND attname = name AND attnum > 0 AND NOT attisdropped
)
SELECT 'check',
       'worklease_leases',
       leases IS NOT NULL,
       coalesce(missing, ''),
       coalesce(other, ''),
       EXISTS (
           SELECT FROM pg_index
           JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
           WHERE indrelid = leases AND attname = 'work_id' AND indnkeyatts = 1
             AND indisunique AND indimmediate AND indisvalid AND indpred IS NULL
       ),
       concat_ws(', ',
           CASE WHEN NOT may_select THEN 'SELECT' END,
           CASE WHEN NOT may_insert THEN 'INSERT' END,
           CASE WHEN NOT may_update THEN 'UPDATE' END,
           CASE WHEN NOT has_table_privilege(leases, 'DELETE') THEN 'DELETE' END),
       coalesce(may_select, false),
       'worklease_fencing_seq',
       seqrelid IS NOT NULL,
       coalesce(has_sequence_privilege(seqrelid, 'USAGE, UPDATE'), false),
       coalesce(seqcache, 0),
       coalesce(seqcycle, false),
       coalesce(seqincrement, 0),
       quote_ident(current_user),
       current_setting('search_path'),
       current_setting('transaction_isolation'),
       pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean
FROM place
CROSS JOIN columns
WHERE $1::text = 'check'
