-- leave_tombstones: leaves tombstones: an acquire of these tickets is refused for these times.
--
-- Arguments   the tickets, each with a time and the call that leaves the tombstone; null tickets
--             and times of 0 are passed over
-- Returns     the longest time
-- Complexity  O(tickets)
-- Retry       sets the times anew
CREATE OR REPLACE FUNCTION stanchion.leave_tombstones(
    p_object bigint, p_now bigint, p_tickets uuid[], p_times bigint[], p_calls uuid[]
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    longest bigint;
BEGIN
    WITH left_behind AS (
        INSERT INTO stanchion.tombstones AS t (object, ticket, expiry, call)
        SELECT p_object, e.ticket, p_now + e.lasting, e.call
        FROM unnest(p_tickets, p_times, p_calls) e (ticket, lasting, call)
        WHERE e.ticket IS NOT NULL AND e.lasting > 0
        ON CONFLICT ON CONSTRAINT tombstones_pkey DO UPDATE SET expiry = excluded.expiry, call = excluded.call
        RETURNING t.expiry
    )
    SELECT coalesce(max(b.expiry) - p_now, 0) INTO longest FROM left_behind b;
    RETURN longest;
END
$$;
