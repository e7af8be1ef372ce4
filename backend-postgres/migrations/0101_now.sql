-- now: this server's clock in microseconds since 1970.
--
-- Read once in each step, after its locks are taken. O(1); takes no locks.
CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
