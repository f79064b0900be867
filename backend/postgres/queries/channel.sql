-- channel: where it is told that a lease was freed; stands where a query says channel.
-- One for each schema, which its name carries hashed: a schema's own may be too long.
(SELECT 'worklease_' || hashtextextended(n.nspname::text, 0)
 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.oid = 'worklease_leases'::regclass)
