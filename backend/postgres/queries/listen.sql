-- listen: begin to hear. The body of a DO, since LISTEN takes no expression.
-- On the listener's own connection, as are mark and unmark.
BEGIN
    EXECUTE format('LISTEN %I', /*channel*/);
END
