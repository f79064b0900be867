-- mark: say that somebody waits, for told.sql.
-- in:   key: a work ID's lock, or that of all of them
-- The locks are shared, and last until unmark or the session's end. It waits for a
-- statement that frees the lease just now, but not long: meanwhile nothing is heard.
SELECT pg_advisory_lock_shared(/*key*/) FROM set_config('lock_timeout', '50', true)
