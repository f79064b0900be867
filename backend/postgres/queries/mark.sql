-- mark: say that somebody waits, for told.sql.
-- in:   keys: the class and key of a work ID's lock, or of those of all of them
-- The locks are shared, and last until unmark or the session's end. It waits for a
-- statement that frees the lease just now, but not long: meanwhile nothing is heard.
SELECT pg_advisory_lock_shared(class, key)
FROM set_config('lock_timeout', '50', true), /*keys*/
