-- ring: sends hints to a process, when the transaction commits.
--
-- A payload is bounded: 32 digits and a comma for each ticket. O(tickets); takes no locks here, one of all notifying
-- transactions while they commit.
CREATE FUNCTION stanchion.ring(p_process uuid, p_tickets uuid[]) RETURNS void
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
