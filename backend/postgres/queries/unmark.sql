-- unmark: say that nobody waits any more.
-- in:   keys: as for mark
SELECT pg_advisory_unlock_shared(class, key)
FROM /*keys*/
