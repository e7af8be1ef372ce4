-- notify_processes: sends hints to the processes of tickets, one message to each process. O(tickets · log processes).
CREATE OR REPLACE FUNCTION stanchion.notify_processes(p_processes uuid[], p_tickets uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(p_tickets) = 1 THEN
        PERFORM stanchion.notify_process(p_processes[1], p_tickets);
    ELSIF cardinality(p_tickets) > 1 THEN
        PERFORM stanchion.notify_process(t.process, array_agg(t.ticket ORDER BY t.at))
        FROM unnest(p_processes, p_tickets) WITH ORDINALITY t (process, ticket, at)
        GROUP BY t.process;
    END IF;
END
$$;
