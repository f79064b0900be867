-- probe: tell all listeners nothing, from another connection than theirs.
-- in:   $1 'probe'
-- out:  one row
-- An empty text names no lease. Behind a pooler in transaction mode LISTEN succeeds
-- and nothing is heard, this neither.
SELECT 'probe' || pg_notify(/*channel*/, '')::text
WHERE $1::text = 'probe'
