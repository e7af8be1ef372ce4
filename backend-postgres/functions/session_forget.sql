-- session_forget: removes what was written of holds that have ended. Returns the tickets of which something is written still, or may
-- be.
--
-- p_names, p_tickets  the mutexes, each with the ticket, or null
-- Waits for a row for a moment only: rows that somebody keeps locked stay, and so do all in a locked table or one that is not to be
-- written at the moment. Not durable. Locks: rows of these mutexes, in order. O(names · log rows). A retry goes on.
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
