-- session_note: writes the holders of mutexes that sessions keep, for others to see. Not durable.
--
-- Arguments   p_names, …, p_labels: the mutexes, in order, each with the process id of the session,
--             the ticket, the token, the age of the grant in µs, and the label or null. A mutex
--             whose session does not have the lock is left out
-- Returns     false if nothing can be written at the moment
-- Locks       rows of these mutexes
-- Complexity  O(names · log rows + locks of the server)
CREATE OR REPLACE FUNCTION stanchion.session_note(
    p_namespace text, p_names text[], p_pids integer[], p_tickets uuid[], p_tokens bigint[], p_ages bigint[], p_labels text[]
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM stanchion.enter();
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH notes AS MATERIALIZED (
        SELECT n.*, stanchion.session_key(p_namespace, n.name) AS key
        FROM unnest(p_names, p_pids, p_tickets, p_tokens, p_ages, p_labels) n (name, pid, ticket, token, age, label))
    INSERT INTO stanchion.session_grants (namespace, name, pid, started, ticket, token, granted, label)
    SELECT p_namespace, n.name, n.pid, a.backend_start, n.ticket, n.token, stanchion.now() - n.age, n.label
    FROM notes n
    JOIN stanchion.session_locks() l ON l.pid = n.pid AND l.granted AND l.key = n.key
    JOIN pg_stat_activity a ON a.pid = n.pid
    ORDER BY n.name
    ON CONFLICT (namespace, name) DO UPDATE SET
        pid = excluded.pid, started = excluded.started, ticket = excluded.ticket, token = excluded.token,
        granted = excluded.granted, label = excluded.label;
    RETURN true;
EXCEPTION WHEN read_only_sql_transaction THEN
    RETURN false;
END
$$;
