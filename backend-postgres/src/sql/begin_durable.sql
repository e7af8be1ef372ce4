-- Begins a transaction as `begin.sql`, and makes its commit wait for the disk, which the server's
-- settings do not do.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL statement_timeout = '{timeout}';
SET LOCAL lock_timeout = '{lock}';
SET LOCAL idle_in_transaction_session_timeout = '{idle}';
SET LOCAL synchronous_commit = on;
