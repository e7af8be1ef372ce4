-- hint: notes hints to the processes of waiters. They are sent once the transaction has committed:
-- see `hints` and `tell`.
--
-- They are kept in a setting of the transaction, which no function has to pass on. Its name has
-- nothing that stands for the schema.
--
-- Arguments   the processes, each with the ticket of its waiter
-- Complexity  O(tickets)
-- Retry       notes them again
CREATE OR REPLACE FUNCTION stanchion.hint(p_processes uuid[], p_tickets uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(p_tickets) > 0 THEN
        PERFORM set_config('stanchion_hints.noted', coalesce(current_setting('stanchion_hints.noted', true), '') || (
            SELECT string_agg(t.process || ':' || t.ticket || ',', '' ORDER BY t.at)
            FROM unnest(p_processes, p_tickets) WITH ORDINALITY t (process, ticket, at)), true);
    END IF;
END
$$;
