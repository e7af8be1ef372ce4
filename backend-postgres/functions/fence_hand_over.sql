-- fence_hand_over: lets the new ticket of an attached hold write with the token that the hold kept.
-- No earlier ticket may write any more.
--
-- Arguments   the resource, the fencing token, the new ticket
-- Returns     nothing; raises STF01 if a larger token was seen, with that as the detail, or an
--             argument is null
-- Locks       as fenced
-- Complexity  O(1)
-- Retry       hands over the same again
CREATE OR REPLACE FUNCTION stanchion.fence_hand_over(resource text, token bigint, ticket uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
    done boolean;
    largest bigint;
BEGIN
    INSERT INTO stanchion.fences AS seen
    VALUES (fence_hand_over.resource, fence_hand_over.token, fence_hand_over.ticket)
    ON CONFLICT ON CONSTRAINT fences_pkey DO UPDATE SET token = excluded.token, ticket = excluded.ticket
    WHERE seen.token <= excluded.token
    RETURNING true INTO done;
    IF done IS NOT TRUE THEN
        SELECT seen.token INTO largest FROM stanchion.fences AS seen
        WHERE seen.resource = fence_hand_over.resource;
        RAISE EXCEPTION USING
            ERRCODE = 'STF01',
            MESSAGE = format('token %s may not write to %L any more: a newer holder has', token, resource),
            DETAIL = coalesce(largest::text, ''),
            HINT = 'Roll back, and do not try again with this hold: it was lost.';
    END IF;
END
$$;
