-- session_shown: returns the sessions that hold or wait for a mutex, as `session_holders` does,
-- with the grant of the holder once it is a second old.
--
-- Arguments   the namespace and the name
-- Returns     with the columns of `session_holders` the ticket, the token, the age in µs and the
--             label; these are null where they cannot be read, or the row is locked: it may be one
--             that could not be removed yet
-- Locks       that row; waits for none
-- Complexity  O(locks of the server)
CREATE OR REPLACE FUNCTION stanchion.session_shown(p_namespace text, p_name text)
RETURNS TABLE (pid integer, application text, holds boolean, ticket uuid, token bigint, age bigint, label text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10ms' AS $$
DECLARE
    g stanchion.session_grants;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    BEGIN
        SELECT x.* INTO g FROM stanchion.session_grants x WHERE x.namespace = p_namespace AND x.name = p_name
        FOR SHARE SKIP LOCKED;
    EXCEPTION WHEN lock_not_available OR read_only_sql_transaction THEN
        g := NULL;
    END;
    RETURN QUERY
    SELECT h.pid, h.application, h.holds, w.ticket, w.token, stanchion.now() - w.granted, w.label
    FROM stanchion.session_holders(p_namespace, p_name) h
    LEFT JOIN pg_stat_activity a ON a.pid = h.pid
    LEFT JOIN LATERAL (SELECT g.ticket, g.token, g.granted, g.label) w
        -- The start of another role's session is not shown to all.
        ON h.holds AND h.pid = g.pid AND coalesce(a.backend_start, g.started) = g.started;
END
$$;
