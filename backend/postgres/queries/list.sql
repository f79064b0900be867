-- list: one page of the leases, in the order of the primary key.
-- in:   $1 'list'  $2 work_id to begin at  $3 whether the page before ended there
--       $4 whether live leases are wanted  $5 lapsed ones  $6 holder_id, NULL for any
--       $7 exit, NULL for any  $8 prefix of work_id  $9 whether the state is wanted
-- out:  a row for each lease that is wanted, and one, wanted or not, for the last
--       that was read; its work_id is NULL when there was none to read
-- A page is what was read, not what is wanted, so that no statement takes long. It
-- is a thousand rows, or those before it has 4 MiB of state. Times beyond what Go can
-- count, by hand, are cut to 290 years from now. The microseconds of acquired_at count
-- something else, see checkpoint.sql. The casts: see read.sql.
WITH page AS (
    SELECT work_id, holder_id, fencing_token, expires_at, acquired_at, updated_at,
           checkpoint, prev_exit_mode, prev_holder_id,
           expires_at > statement_timestamp() AS live,
           CASE WHEN exit_mode IN ('finished', 'abandoned', 'retired') THEN exit_mode
                WHEN expires_at > statement_timestamp() THEN 'none'
                ELSE 'expired' END AS exit
    FROM worklease_leases
    WHERE $1::text = 'list'
      AND work_id >= $2::text AND NOT ($3::boolean AND work_id = $2::text)
    ORDER BY work_id
    LIMIT 1000
), judged AS (
    SELECT *, CASE WHEN live THEN $4::boolean ELSE $5::boolean END
              AND ($6::text IS NULL OR holder_id = $6::text)
              AND ($7::text IS NULL OR exit = $7::text)
              AND starts_with(work_id, $8::text) AS wanted
    FROM page
), weighed AS (
    SELECT *, coalesce(sum(octet_length(checkpoint)) FILTER (WHERE wanted AND $9::boolean)
              OVER (ORDER BY work_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM judged
), answer AS (
    SELECT statement_timestamp() - interval '290 years' AS early,
           statement_timestamp() + interval '290 years' AS late,
           (SELECT max(work_id) FROM weighed WHERE before < 4194304) AS last
)
SELECT 'list',
       work_id::text,
       coalesce(wanted, false),
       coalesce(holder_id::text, ''),
       coalesce(fencing_token::bigint, 0),
       coalesce(live, false),
       coalesce(exit::text, ''),
       coalesce(prev_exit_mode::text, ''),
       coalesce(prev_holder_id::text, ''),
       coalesce(octet_length(checkpoint), 0)::bigint,
       CASE WHEN wanted AND $9::boolean THEN checkpoint::bytea END,
       coalesce((extract(epoch FROM least(greatest(expires_at, early), late)) * 1000000)::bigint, 0),
       coalesce((extract(epoch FROM date_trunc('milliseconds', least(greatest(acquired_at, early), late))) * 1000000)::bigint, 0),
       coalesce((extract(epoch FROM least(greatest(updated_at, early), late)) * 1000000)::bigint, 0)
FROM answer
LEFT JOIN weighed ON before < 4194304 AND (wanted OR work_id = last)
ORDER BY work_id
