-- session_forget: removes what was written of holds that have ended, as far as that can be done at once. What stays is nothing
-- without its lock.
--
-- p_names, p_tickets  the mutexes, each with the ticket
-- Locks: rows of these mutexes. O(names · log rows).
CREATE OR REPLACE FUNCTION stanchion.session_forget(p_namespace text, p_names text[], p_tickets uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM stanchion.session_grants g USING unnest(p_names, p_tickets) e (name, ticket)
    WHERE g.namespace = p_namespace AND g.name = e.name AND g.ticket = e.ticket;
EXCEPTION WHEN lock_not_available OR read_only_sql_transaction THEN
    RETURN;
END
$$;
