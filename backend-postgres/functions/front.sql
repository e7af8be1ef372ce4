-- front: returns the first live waiters that are not larger than the limit, and removes the lost
-- waiters that it passes.
--
-- Arguments   p_asking: the calling process, which is live, or null
--             p_count: how many
--             p_behind: they come behind this arrival number
-- Returns     line: the arrival numbers, in order
--             gone: the number of removed waiters
-- Locks       see `mark_dead`
-- Complexity  O(log waiters + live waiters passed over), and where many silent ones stand in front,
--             once the time of `next_live`
CREATE OR REPLACE FUNCTION stanchion.front(
    o stanchion.objects, p_now bigint, p_asking uuid, p_count integer, p_behind bigint,
    OUT line bigint[], OUT gone bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    many CONSTANT integer := 256;
    chunk integer := p_count;
    seen integer;
    passed integer := 0;
    most CONSTANT integer := 100;
    large integer := 0;
    behind bigint := p_behind;
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
            ELSIF w.till > p_now THEN
                -- Behind very many that are too large, nobody is the first before they have left.
                large := large + 1;
                IF large = most THEN
                    line := line || array_fill(w.arrival, ARRAY[p_count - cardinality(line)]);
                    EXIT;
                END IF;
            END IF;
            passed := passed + (w.till <= p_now)::integer;
        END LOOP;
        EXIT WHEN seen < chunk OR cardinality(line) = p_count;
        IF passed >= many THEN
            passed := 0;
            behind := stanchion.next_live(
                o.namespace, o.id, p_now, p_asking, stanchion.mark_dead(o.namespace, p_now), behind) - 1;
            EXIT WHEN behind IS NULL;
        END IF;
        chunk := least(chunk * 4, CASE WHEN large > 0 THEN most ELSE many END);
    END LOOP;
    gone := cardinality(lost);
    IF gone > 0 THEN
        DELETE FROM stanchion.waiters q WHERE q.object = o.id AND q.arrival = ANY (lost);
    END IF;
END
$$;
