-- acquire_flush: writes the results of `acquire_each`.
--
-- Arguments   p_granted, p_joined, p_renewed: numbers of entries
--             p_left: arrival numbers of waiters that leave the queue
-- Complexity  O(entries)
CREATE OR REPLACE FUNCTION stanchion.acquire_flush(
    p_object bigint, p_now bigint, p_process uuid, p_tickets uuid[], p_weights bigint[], p_leases bigint[],
    p_granted integer[], p_tokens bigint[], p_labels text[], p_joined integer[], p_arrivals bigint[],
    p_renewed integer[], p_left bigint[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_left <> '{}' THEN
        DELETE FROM stanchion.waiters w WHERE w.object = p_object AND w.arrival = ANY (p_left);
    END IF;
    IF p_granted <> '{}' THEN
        INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token, label)
        SELECT p_object, p_tickets[k], p_weights[k], p_now + p_leases[k], p_now, p_tokens[k], p_labels[k]
        FROM unnest(p_granted) k;
    END IF;
    IF p_joined <> '{}' THEN
        INSERT INTO stanchion.waiters (object, arrival, ticket, process, weight, lease, since)
        SELECT p_object, p_arrivals[k], p_tickets[k], p_process, p_weights[k], p_leases[k], p_now
        FROM unnest(p_joined) k;
    END IF;
    IF p_renewed <> '{}' THEN
        UPDATE stanchion.holds h SET expiry = p_now + p_leases[array_position(p_tickets, h.ticket)]
        WHERE h.object + 0 = p_object AND h.ticket = ANY (ARRAY(SELECT p_tickets[k] FROM unnest(p_renewed) k));
    END IF;
END
$$;
