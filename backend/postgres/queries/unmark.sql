-- unmark: say that nobody waits any more.
-- in:   key: as for mark
SELECT pg_advisory_unlock_shared(/*key*/)
