-- fence: as fenced, and prevents the commit of the transaction if the holder may not write.
--
-- Arguments   the resource, the fencing token, the ticket of the hold
-- Returns     nothing; raises STF01 where fenced would return false, with the largest token as the
--             detail
-- Locks       as fenced
-- Complexity  O(1)
-- Retry       as fenced
CREATE OR REPLACE FUNCTION stanchion.fence(resource text, token bigint, ticket uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
    largest bigint;
BEGIN
    IF stanchion.fenced(resource, token, ticket) IS NOT TRUE THEN
        SELECT seen.token INTO largest FROM stanchion.fences AS seen WHERE seen.resource = fence.resource;
        RAISE EXCEPTION USING
            ERRCODE = 'STF01',
            MESSAGE = format('token %s may not write to %L any more: a newer holder has', token, resource),
            DETAIL = coalesce(largest::text, ''),
            HINT = 'Roll back, and do not try again with this hold: it was lost.';
    END IF;
END
$$;
