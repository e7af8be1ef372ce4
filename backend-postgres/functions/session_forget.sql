-- session_forget: removes the rows that were written of holds that have ended.
--
-- Waits for a row for a moment only: rows that another transaction keeps locked stay, and so do all
-- rows of a table that is locked or cannot be written at the moment. Not durable.
--
-- Arguments   p_names, p_tickets: the mutexes, each with the ticket, or null
-- Returns     the tickets of which a row is written still, or may be
-- Locks       rows of these mutexes, in order
-- Complexity  O(names · log rows)
-- Retry       goes on
CREATE OR REPLACE FUNCTION stanchion.session_forget(p_namespace text, p_names text[], p_tickets uuid[]) RETURNS uuid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10ms' AS $$
DECLARE
    ended text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    BEGIN
        ended := ARRAY(
            SELECT g.name FROM stanchion.session_grants g JOIN unnest(p_names, p_tickets) e (name, ticket) USING (name, ticket)
            WHERE g.namespace = p_namespace ORDER BY g.name FOR UPDATE OF g);
    EXCEPTION WHEN lock_not_available THEN
        ended := ARRAY(
            SELECT g.name FROM stanchion.session_grants g JOIN unnest(p_names, p_tickets) e (name, ticket) USING (name, ticket)
            WHERE g.namespace = p_namespace FOR UPDATE OF g SKIP LOCKED);
    END;
    DELETE FROM stanchion.session_grants g WHERE g.namespace = p_namespace AND g.name = ANY (ended);
    RETURN ARRAY(
        SELECT g.ticket FROM stanchion.session_grants g JOIN unnest(p_names, p_tickets) e (name, ticket) USING (name, ticket)
        WHERE g.namespace = p_namespace);
EXCEPTION WHEN lock_not_available OR read_only_sql_transaction OR insufficient_privilege THEN
    RETURN array_remove(p_tickets, NULL);
END
$$;
