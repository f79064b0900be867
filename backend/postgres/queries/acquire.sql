-- acquire: take a lease that is free.
-- in:   $1 'acquire'  $2 work_id  $3 holder_id  $4 ttl in microseconds
-- out:  always one row: the token and expiry when taken; the holder and the
--       microseconds that remain when held; neither when another attempt won the
--       race for the row (why.sql tells whose)
-- A held lease costs a read: the INSERT has nothing to insert, so no row is
-- locked, no token drawn and nothing logged. On conflict the token is drawn after
-- the row lock, and never falls even where the sequence did. Where there is no row
-- the lock of alone takes its place: a lease may come and go between the drawing of
-- another's token and its insertion. The casts: see read.sql.
-- A lease that never lapses, by hand, remains for 290 years, which Go can count.
-- acquired_at is whole milliseconds: checkpoint.sql counts in the rest.
WITH held AS (
    SELECT holder_id, expires_at
    FROM worklease_leases
    WHERE work_id = $2 AND expires_at > statement_timestamp()
), taken AS (
    INSERT INTO worklease_leases AS l
        (work_id, holder_id, fencing_token, expires_at, acquired_at, updated_at)
    SELECT $2, $3, nextval('worklease_fencing_seq'),
           statement_timestamp() + $4::bigint * interval '1 microsecond',
           date_trunc('milliseconds', statement_timestamp()), statement_timestamp()
    FROM (SELECT pg_advisory_xact_lock(hashtextextended($2, 0))) AS alone
    WHERE $1::text = 'acquire' AND NOT EXISTS (SELECT FROM held)
    ON CONFLICT (work_id) DO UPDATE SET
        holder_id      = excluded.holder_id,
        fencing_token  = greatest(nextval('worklease_fencing_seq'), l.fencing_token + 1),
        expires_at     = excluded.expires_at,
        exit_mode      = NULL,
        prev_exit_mode = CASE WHEN l.exit_mode IN ('finished', 'abandoned', 'retired')
                              THEN l.exit_mode ELSE 'expired' END,
        prev_holder_id = l.holder_id,
        acquired_at    = excluded.acquired_at,
        updated_at     = excluded.updated_at
    WHERE l.expires_at <= statement_timestamp()
    RETURNING l.fencing_token, l.expires_at
)
SELECT 'acquire',
       taken.fencing_token::bigint,
       (extract(epoch FROM taken.expires_at) * 1000000)::bigint,
       held.holder_id::text,
       (extract(epoch FROM least(held.expires_at, statement_timestamp() + interval '290 years') - statement_timestamp()) * 1000000)::bigint
FROM (SELECT) AS answer
LEFT JOIN taken ON true
LEFT JOIN held ON true
