-- sweep_blooms: removes filters that have ended, with all their rows, and the answers to old
-- requests (C25).
--
-- The row of a filter stays for 60 s more, as long as the answers to its requests. The pages of an
-- image that has ended go in parts, its own row last.
--
-- Arguments   namespace, maximum number of rows of each kind to remove
-- Returns     the number of removed rows
-- Locks       rows that no other transaction has locked; waits for none
-- Complexity  O(batch · log rows)
-- Retry       removes more
CREATE OR REPLACE FUNCTION stanchion.sweep_blooms(in_namespace text, in_batch integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    past CONSTANT bigint := stanchion.now() / 1000 - 60000;
    ended bigint[];
    over bigint;
    gone bigint;
    swept bigint;
BEGIN
    PERFORM stanchion.enter();
    DELETE FROM stanchion.bloom_flights AS t
    USING (
        SELECT b.filter, b.lane FROM stanchion.bloom_flights AS b WHERE b.answered < past
        ORDER BY b.answered LIMIT in_batch FOR UPDATE SKIP LOCKED
    ) AS old
    WHERE t.filter = old.filter AND t.lane = old.lane;
    GET DIAGNOSTICS swept = ROW_COUNT;
    ended := ARRAY(
        SELECT b.id FROM stanchion.bloom_filters AS b WHERE b.namespace = in_namespace AND b.ends < past
        ORDER BY b.ends LIMIT in_batch FOR UPDATE SKIP LOCKED
    );
    IF ended <> '{}' THEN
        UPDATE stanchion.bloom_images AS i SET is_over = true
        FROM stanchion.bloom_filters AS b WHERE b.id = ANY (ended) AND i.id = b.image;
        DELETE FROM stanchion.bloom_filters AS b WHERE b.id = ANY (ended);
        swept := swept + cardinality(ended);
    END IF;
    FOR over IN
        SELECT i.id FROM stanchion.bloom_images AS i WHERE i.namespace = in_namespace AND i.is_over
        LIMIT in_batch FOR UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN in_batch <= 0;
        DELETE FROM stanchion.bloom_pages AS p WHERE p.ctid = ANY (ARRAY(
            SELECT q.ctid FROM stanchion.bloom_pages AS q WHERE q.image = over LIMIT in_batch
        ));
        GET DIAGNOSTICS gone = ROW_COUNT;
        swept := swept + gone;
        in_batch := in_batch - gone;
        IF in_batch > 0 THEN
            DELETE FROM stanchion.bloom_images AS i WHERE i.id = over;
            swept := swept + 1;
            in_batch := in_batch - 1;
        END IF;
    END LOOP;
    RETURN swept;
END
$$;
