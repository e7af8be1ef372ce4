-- notify_process: sends hints to a process when the transaction commits.
--
-- The length of a payload is bounded: a ticket takes 32 digits and a comma. O(tickets). Takes no locks here; at the
-- commit, the one lock of all transactions that notify.
CREATE OR REPLACE FUNCTION stanchion.notify_process(p_process uuid, p_tickets uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    chunk CONSTANT integer := 230;
    payload text;
BEGIN
    FOR start IN 1 .. cardinality(p_tickets) BY chunk LOOP
        payload := replace(array_to_string(p_tickets[start:start + chunk - 1], ','), '-', '');
        PERFORM pg_notify('stanchion_' || replace(p_process::text, '-', ''), payload);
    END LOOP;
END
$$;
