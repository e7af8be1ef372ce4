-- poll: says that the process's waiters live, and asks whose turn it is.
--
-- p_kinds, p_names  the objects in the order of kind and name
-- births    when each record was made, 0 for none
-- nexts     in how long the next hold or the liveness of another's waiter in front ends (-1: neither)
-- ready, counts  the process's waiters whose turn it is, those of each object behind each other, and how many of each
-- Locks     the objects, in order; then see `hear`. O(log waiters + waiters passed over or served) for each object.
-- Retry     asks again.
CREATE FUNCTION stanchion.poll(
    p_namespace text, p_process uuid, p_tokens bigint, p_state bigint, p_kinds text[], p_names text[],
    OUT births bigint[], OUT nexts bigint[], OUT counts integer[], OUT ready uuid[]
)
LANGUAGE plpgsql AS $$
DECLARE
    never CONSTANT bigint := 9007199254740992;
    claimed stanchion.objects[];
    o stanchion.objects;
    clock bigint;
    before stanchion.objects;
    longest bigint := 0;
    next bigint;
    found record;
BEGIN
    PERFORM stanchion.enter();
    FOR i IN 1 .. cardinality(p_names) LOOP
        o := stanchion.claim(p_namespace, p_kinds[i], p_names[i], NULL);
        claimed[i] := o;
        longest := greatest(longest, o.longest);
    END LOOP;
    clock := stanchion.now();
    PERFORM stanchion.hear(p_namespace, p_process, clock, longest + p_state);
    births := '{}';
    nexts := '{}';
    counts := '{}';
    ready := '{}';
    FOR i IN 1 .. cardinality(p_names) LOOP
        IF i = 1 OR p_names[i] <> p_names[i - 1] OR p_kinds[i] <> p_kinds[i - 1] THEN
            o := claimed[i];
        END IF;
        IF o.lim IS NULL THEN
            births := births || coalesce(o.born, 0);
            nexts := nexts || (-1)::bigint;
            counts := counts || 0;
            CONTINUE;
        END IF;
        before := o;
        IF o.next <= clock THEN
            o := stanchion.reap(o, clock);
        END IF;
        SELECT t.* INTO found FROM stanchion.turn(o, clock, p_process, p_process, o.used < before.used) t;
        o.heaviest := found.heaviest;
        IF found.gone > 0 THEN
            o.waiting := o.waiting - found.gone;
            o.swept := 0;
        END IF;
        next := least(o.next, found.soon);
        births := births || o.born;
        nexts := nexts || CASE WHEN next < never THEN greatest(next - clock, 0) ELSE -1 END;
        counts := counts || cardinality(found.ready);
        ready := ready || found.ready;
        IF o IS DISTINCT FROM before OR o.waiting > 0 THEN
            PERFORM stanchion.save(o, o IS DISTINCT FROM before, clock, o.longest, p_tokens);
        END IF;
    END LOOP;
END
$$;
