-- end_generation: ends the open generation of a wait group whose last member ended, and notes hints
-- to the processes that wait for its end.
--
-- Arguments   the row of the group
-- Returns     the row for `save`
-- Locks       the rows of this object's watchers
-- Complexity  O(part)
CREATE OR REPLACE FUNCTION stanchion.end_generation(o stanchion.objects) RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept CONSTANT integer := 16;
    -- Maximum number of processes that are told; the others ask by themselves.
    part CONSTANT integer := 500;
    ended bigint[] := ARRAY[o.finished, o.abandoned, o.expired, 1];
    size integer := coalesce(cardinality(o.past), 0);
    processes uuid[];
    hints uuid[];
BEGIN
    IF o.finished = 0 AND o.abandoned = 0 AND o.expired = 0 THEN
        ended := CASE WHEN size > 0 THEN o.past[size - 3:size - 1] || 0::bigint ELSE ARRAY[0, 0, 0, 0]::bigint[] END;
    END IF;
    o.past := coalesce(o.past, '{}') || ended;
    IF size = kept * 4 THEN
        IF o.past[4] = 1 THEN
            o.old := ARRAY[coalesce(o.old[1], 0) + o.past[1], coalesce(o.old[2], 0) + o.past[2],
                           coalesce(o.old[3], 0) + o.past[3]];
        END IF;
        o.past := o.past[5:];
    END IF;
    o.finished := 0;
    o.abandoned := 0;
    o.expired := 0;
    WITH told AS (
        DELETE FROM stanchion.watchers w WHERE w.ctid = ANY (ARRAY(
            SELECT v.ctid FROM stanchion.watchers v WHERE v.object = o.id AND v.noted > 0 ORDER BY v.noted DESC LIMIT part
        )) RETURNING w.process, w.hint
    )
    SELECT array_agg(t.process), array_agg(t.hint) INTO processes, hints FROM told t;
    PERFORM stanchion.hint(processes, hints);
    RETURN o;
END
$$;
