-- poll: marks the calling process as live, and returns which of its waiters can be granted next.
--
-- p_kinds, p_names  the objects in the order of kind and name
-- epochs    when each record was made; 0 if there is none
-- nexts     time until the next hold ends, or the liveness of a waiter of another process in front (-1: neither)
-- ready, counts  the tickets of the process's waiters that can be granted next, object by object, and their numbers
-- Locks     the objects, in order; then see `mark_live`. O(log waiters + waiters passed over or served) for each
--           object.
-- Retry     asks again.
CREATE OR REPLACE FUNCTION stanchion.poll(
    p_namespace text, p_process uuid, p_tokens bigint, p_state bigint, p_kinds text[], p_names text[],
    OUT epochs bigint[], OUT nexts bigint[], OUT counts integer[], OUT ready uuid[]
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
    PERFORM stanchion.mark_live(p_namespace, p_process, clock, longest + p_state);
    epochs := '{}';
    nexts := '{}';
    counts := '{}';
    ready := '{}';
    FOR i IN 1 .. cardinality(p_names) LOOP
        IF i = 1 OR p_names[i] <> p_names[i - 1] OR p_kinds[i] <> p_kinds[i - 1] THEN
            o := claimed[i];
        END IF;
        IF o.lim IS NULL THEN
            epochs := epochs || coalesce(o.epoch, 0);
            nexts := nexts || (-1)::bigint;
            counts := counts || 0;
            CONTINUE;
        END IF;
        before := o;
        IF o.next <= clock THEN
            o := stanchion.remove_expired(o, clock);
        END IF;
        SELECT t.* INTO found FROM stanchion.next_grants(o, clock, p_process, p_process, o.used < before.used) t;
        o.heaviest := found.heaviest;
        IF found.gone > 0 THEN
            o.waiting := o.waiting - found.gone;
            o.swept := 0;
        END IF;
        next := least(o.next, found.soon);
        epochs := epochs || o.epoch;
        nexts := nexts || CASE WHEN next < never THEN greatest(next - clock, 0) ELSE -1 END;
        counts := counts || cardinality(found.ready);
        ready := ready || found.ready;
        IF o IS DISTINCT FROM before OR o.waiting > 0 THEN
            PERFORM stanchion.save(o, o IS DISTINCT FROM before, clock, o.longest, p_tokens);
        END IF;
    END LOOP;
END
$$;
