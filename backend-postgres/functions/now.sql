-- now: returns this server's clock in µs since 1970, at the moment of the call, not at the
-- beginning of the transaction.
--
-- Each step reads it once, after it has taken its locks.
--
-- Returns     the time
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
