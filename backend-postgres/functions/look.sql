-- look: returns the state of wait groups, and notes the processes that wait for the end of an open
-- generation.
--
-- Arguments   p_names: the groups in the order of their names, each with the next p_counts of the
--               entries below
--             p_watches: the generation to wait for, 0 for the open one, or null to ask only
--             p_hints: the hint that its end sends
-- Returns     for each group: epoch, members, generation, and the time until a lease ends (-1:
--               none)
--             for each entry: whether the generation has ended, and how
-- Locks       the objects, in order
-- Complexity  O(log holds + log watchers)
CREATE OR REPLACE FUNCTION stanchion.look(
    p_namespace text, p_process uuid, p_tokens bigint, p_names text[], p_counts integer[],
    p_watches bigint[], p_hints uuid[],
    OUT epochs bigint[], OUT members bigint[], OUT generations bigint[], OUT nexts bigint[], OUT ended boolean[],
    OUT finished bigint[], OUT abandoned bigint[], OUT expired bigint[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    never CONSTANT bigint := 9007199254740992;
    again CONSTANT bigint := 1000000;
    claimed stanchion.objects[];
    o stanchion.objects;
    clock bigint;
    before stanchion.objects;
    k integer := 0;
    asked bigint;
    over boolean;
    counts bigint[];
BEGIN
    PERFORM stanchion.enter();
    FOR i IN 1 .. cardinality(p_names) LOOP
        claimed[i] := stanchion.claim(p_namespace, 'w', p_names[i], NULL);
    END LOOP;
    clock := stanchion.now();
    FOR i IN 1 .. cardinality(p_names) LOOP
        o := claimed[i];
        before := o;
        IF o.next <= clock THEN
            o := stanchion.remove_expired(o, clock, cardinality(p_names));
        END IF;
        IF o.next <= clock THEN
            PERFORM stanchion.untidy();
        END IF;
        IF o.used < before.used THEN
            o := stanchion.wake(o, clock, NULL);
        END IF;
        FOR j IN 1 .. p_counts[i] LOOP
            k := k + 1;
            asked := CASE WHEN p_watches[k] > 0 THEN least(p_watches[k], o.generation) ELSE o.generation END;
            over := o.id IS NULL OR o.used = 0 OR asked < o.generation;
            counts := NULL;
            IF over THEN
                counts := stanchion.outcome(o, asked);
            ELSIF p_watches[k] IS NOT NULL THEN
                INSERT INTO stanchion.watchers AS w (object, process, hint, noted)
                VALUES (o.id, p_process, p_hints[k], clock)
                ON CONFLICT ON CONSTRAINT watchers_pkey DO UPDATE SET noted = excluded.noted
                WHERE abs(w.noted - excluded.noted) >= again;
            END IF;
            epochs[k] := coalesce(o.epoch, 0);
            members[k] := coalesce(o.used, 0);
            generations[k] := coalesce(o.generation, 0);
            nexts[k] := CASE WHEN o.next < never THEN o.next - clock ELSE -1 END;
            ended[k] := over;
            finished[k] := coalesce(counts[1], 0);
            abandoned[k] := coalesce(counts[2], 0);
            expired[k] := coalesce(counts[3], 0);
        END LOOP;
        IF o IS DISTINCT FROM before THEN
            PERFORM stanchion.save(o, true, clock, 0, p_tokens);
        END IF;
    END LOOP;
END
$$;
