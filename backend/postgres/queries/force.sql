-- force: end a lease, live or lapsed, and fence its holder.
-- in:   $1 'force'  $2 work_id  $3 fencing_token
-- out:  one row when done; no row when left, gone or under another token (why.sql
--       tells which)
-- The new token, which nobody holds, is what fences: a checkpoint revives a lease
-- that has merely lapsed. See acquire.sql for its drawing, release.sql for the second;
-- a lease that has lapsed stays free for statements that began before this one.
UPDATE worklease_leases
SET fencing_token = greatest(nextval('worklease_fencing_seq'), fencing_token + 1),
    expires_at    = least(expires_at, statement_timestamp() - interval '1 second'),
    updated_at    = greatest(updated_at, statement_timestamp())
WHERE $1::text = 'force'
  AND work_id = $2 AND fencing_token = $3
  AND exit_mode IS NULL
RETURNING 'force'/*told*/
