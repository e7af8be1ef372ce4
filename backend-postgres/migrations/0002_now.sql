-- now: this server's clock in microseconds since 1970, at the moment of the call, whenever the transaction began.
--
-- Read once in each step, after its locks are taken. O(1); takes no locks.
CREATE FUNCTION stanchion.now() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
