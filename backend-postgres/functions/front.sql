-- front: returns the arrival numbers of the first live waiters that are not larger than the limit, at most p_count, in
-- order. Removes the lost waiters before them, and returns their number.
--
-- O(log waiters + waiters passed over).
CREATE OR REPLACE FUNCTION stanchion.front(
    o stanchion.objects, p_now bigint, p_asking uuid, p_count integer, OUT line bigint[], OUT gone bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chunk integer := p_count;
    seen integer;
    behind bigint := 0;
    lost bigint[] := '{}';
    w record;
BEGIN
    line := '{}';
    LOOP
        seen := 0;
        FOR w IN SELECT q.* FROM stanchion.each_waiter(o.namespace, o.id, p_now, p_asking, behind, chunk) q LOOP
            seen := seen + 1;
            behind := w.arrival;
            IF w.lost THEN
                lost := lost || w.arrival;
            ELSIF w.till > p_now AND w.weight <= o.lim THEN
                line := line || w.arrival;
                EXIT WHEN cardinality(line) = p_count;
            END IF;
        END LOOP;
        EXIT WHEN seen < chunk OR cardinality(line) = p_count;
        chunk := least(chunk * 4, 256);
    END LOOP;
    gone := cardinality(lost);
    IF gone > 0 THEN
        DELETE FROM stanchion.waiters q WHERE q.object = o.id AND q.arrival = ANY (lost);
    END IF;
END
$$;
