-- list_permits: returns the mutexes, semaphores or wait groups of a namespace from a name on, with
-- their figures, in the order of the bytes of their names.
--
-- In session mode the lock of a session is a hold. A mutex whose session has held it for less than
-- a second, and for which nobody waits, has no row and is not found.
--
-- Arguments   the namespace; the retention in µs; the kind; the rest as for `list_limiters`
-- Returns     a row for each name that it looked at:
--             is_listed: whether the name has state: a mutex while it is held or waited for, any
--               other while its limit is in force, too
--             holders, weight: the live holds and their weight; null if they are more than 50
--             waiting, lim: the number of waiters, of which `waiting_now` judges the first ones of
--               each name, 400 in all; the limit
--             idle: the time since a hold ended; 0 while the name is held or waited for
-- Locks       those of `mark_dead`, which waits for none
-- Complexity  O(names · log rows), and in session mode O(locks of the server)
CREATE OR REPLACE FUNCTION stanchion.list_permits(
    p_namespace text, p_state bigint, p_kind text, p_after text, p_from text, p_upto text, p_count integer
)
RETURNS TABLE (
    name text, is_listed boolean, holders bigint, weight bigint, waiting bigint, lim bigint, idle bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE AS $$
DECLARE
    most CONSTANT integer := 50;
    judged CONSTANT integer := 400;
    moment CONSTANT bigint := stanchion.now();
    by_session CONSTANT boolean := p_kind = 'm' AND EXISTS (
        SELECT FROM stanchion.namespaces n WHERE n.namespace = p_namespace AND n.mutex_mode = 'session');
BEGIN
    PERFORM stanchion.enter();
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT l.key FROM stanchion.session_locks() l WHERE by_session AND l.granted
    ), looked_at AS MATERIALIZED (
        (
            SELECT x.name FROM stanchion.objects x
            WHERE x.namespace = p_namespace AND x.kind = p_kind::"char"
                AND x.name > p_after AND x.name >= p_from AND x.name <= p_upto
            ORDER BY x.name LIMIT p_count
        )
        UNION
        (
            SELECT g.name FROM stanchion.session_grants g
            WHERE by_session AND g.namespace = p_namespace
                AND g.name > p_after AND g.name >= p_from AND g.name <= p_upto
            ORDER BY g.name LIMIT p_count
        )
        ORDER BY 1 LIMIT p_count
    ), known AS MATERIALIZED (
        -- Read only if a name has waiters.
        SELECT stanchion.mark_dead(p_namespace, moment) AS known
    ), kept AS MATERIALIZED (
        -- A sublink, so that the locks are hashed: a join may compare each name with each lock.
        SELECT a.name, (by_session AND stanchion.session_key(p_namespace, a.name) IN (
            SELECT h.key FROM held h))::int::bigint AS keeps
        FROM looked_at a
    ), counted AS (
        SELECT k.name, x.lim,
               CASE WHEN x.waiting > 0 THEN stanchion.waiting_now(
                   p_namespace, x.id, x.waiting, moment,
                   judged / (count(*) FILTER (WHERE x.waiting > 0) OVER ())::integer, (SELECT d.known FROM known d)
               ) ELSE 0 END AS waiting,
               CASE WHEN by_session THEN k.keeps
                    WHEN c.holders <= most THEN c.holders END AS holders,
               CASE WHEN by_session THEN k.keeps
                    WHEN x.next > moment THEN x.used
                    WHEN c.holders <= most THEN c.weight END AS weight,
               moment - greatest(x.touched, e.latest) AS idle
        FROM kept k
        LEFT JOIN stanchion.objects x ON x.namespace = p_namespace AND x.kind = p_kind::"char" AND x.name = k.name
        CROSS JOIN LATERAL (
            SELECT count(*) AS holders, coalesce(sum(y.weight), 0)::bigint AS weight
            FROM (
                SELECT z.weight FROM stanchion.holds z WHERE z.object = x.id AND z.expiry > moment LIMIT most + 1
            ) y
        ) c
        LEFT JOIN LATERAL (
            SELECT z.expiry AS latest FROM stanchion.holds z WHERE z.object = x.id AND z.expiry <= moment
            ORDER BY z.expiry DESC LIMIT 1
        ) e ON true
    )
    SELECT q.name, u.in_use OR p_kind <> 'm' AND q.idle <= p_state, q.holders, q.weight, q.waiting,
           CASE WHEN p_kind = 'm' THEN 1 ELSE q.lim END, CASE WHEN u.in_use THEN 0 ELSE greatest(q.idle, 0) END
    FROM counted q
    CROSS JOIN LATERAL (SELECT q.waiting > 0 OR coalesce(q.holders, 1) > 0 AS in_use) u
    ORDER BY q.name;
END
$$;
