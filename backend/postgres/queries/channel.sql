-- channel: where it is told that a lease was freed; stands where a query says channel.
-- One for each schema, which its name carries hashed: a schema's own may be too long.
-- No subquery, which would be made ready even where nothing is told.
('worklease_' || hashtextextended(
    (pg_identify_object('pg_class'::regclass, 'worklease_leases'::regclass, 0)).schema, 0))
