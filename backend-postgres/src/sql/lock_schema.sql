-- One at a time brings a schema up to date. The lock goes with the transaction, so it works through a pooler.
-- Making it may take longer than a request.
SET LOCAL statement_timeout = '55s';
SET LOCAL lock_timeout = '55s';
SELECT pg_advisory_xact_lock(hashtextextended('stanchion.migrations', 0));
