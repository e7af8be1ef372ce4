-- tell: sends hints to processes, each of them one message.
--
-- It is a transaction of its own: a commit that sends messages waits for all others that do, in any
-- database of the server. While the server's queue of messages is more than half full, which a
-- listener in an open transaction can bring about, none is sent: its waiter asks by itself. The
-- length of a message is bounded: a ticket takes 32 digits and a comma.
--
-- Arguments   the processes, each with the ticket of its waiter
-- Locks       none here; at the commit, the one lock of all transactions that notify
-- Complexity  O(tickets · log processes)
-- Retry       sends the hints again, which is harmless
CREATE OR REPLACE FUNCTION stanchion.tell(p_processes uuid[], p_tickets uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chunk CONSTANT integer := 230;
    t record;
BEGIN
    IF pg_notification_queue_usage() > 0.5 THEN
        RETURN;
    END IF;
    -- Nothing is lost that a waiter relies on.
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR t IN
        SELECT e.process, array_agg(e.ticket ORDER BY e.at) AS tickets
        FROM unnest(p_processes, p_tickets) WITH ORDINALITY e (process, ticket, at)
        GROUP BY e.process
    LOOP
        FOR start IN 1 .. cardinality(t.tickets) BY chunk LOOP
            PERFORM pg_notify(
                'stanchion_' || replace(t.process::text, '-', ''),
                replace(array_to_string(t.tickets[start:start + chunk - 1], ','), '-', ''));
        END LOOP;
    END LOOP;
END
$$;
