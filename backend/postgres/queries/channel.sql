-- channel: where it is told that a lease was freed; stands where a query says channel.
-- The table's number stands for its schema, whatever that is called and however it was
-- found. A constant, so that a statement which tells nothing does not pay for it.
('worklease_' || 'worklease_leases'::regclass::oid::text)
