-- fenced: returns whether the holder of a token may write. If so, its token is the newest from now
-- on.
--
-- For the user's own transaction, together with the write: `UPDATE … WHERE … AND
-- stanchion.fenced(…)`. The lock is kept until the end of that transaction, so that a newer
-- holder's write comes after it. A rollback also undoes the new token. A statement sees the rows
-- that were there when it began: a statement that depends on more than the row which it changes
-- must come after a `SELECT stanchion.fence(…)` of its own.
--
-- Arguments   the resource, the fencing token, the ticket of the hold
-- Returns     false if a larger token was seen, or the same one from another ticket, or an argument
--             is null
-- Locks       the resource's row, until the transaction ends; above READ COMMITTED, 40001 if it
--             changed meanwhile
-- Complexity  O(1)
-- Retry       the same token from the same ticket may write again
CREATE OR REPLACE FUNCTION stanchion.fenced(resource text, token bigint, ticket uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
    mark record;
BEGIN
    IF resource IS NULL OR token IS NULL OR ticket IS NULL THEN
        RETURN false;
    END IF;
    LOOP
        SELECT seen.token, seen.ticket INTO mark FROM stanchion.fences AS seen
        WHERE seen.resource = fenced.resource FOR NO KEY UPDATE;
        IF FOUND THEN
            IF token > mark.token THEN
                UPDATE stanchion.fences AS seen SET token = fenced.token, ticket = fenced.ticket
                WHERE seen.resource = fenced.resource;
                RETURN true;
            END IF;
            RETURN token = mark.token AND ticket = mark.ticket;
        END IF;
        INSERT INTO stanchion.fences VALUES (fenced.resource, fenced.token, fenced.ticket) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
        -- Another transaction was first: the next statement sees its row.
    END LOOP;
END
$$;
