-- holders, waiting: views for people, with names and times in readable form. Expired holds are left
-- out. A mutex that a session keeps is shown once it is held for a second, and has no lease.

CREATE OR REPLACE VIEW stanchion.holders AS
SELECT x.namespace, k.kind, x.name, h.ticket, h.label, h.token, h.weight,
       to_timestamp(h.granted / 1000000.0) AS granted, to_timestamp(h.expiry / 1000000.0) AS lease_ends,
       (h.expiry - c.clock) * interval '1 microsecond' AS lease_left
FROM (SELECT stanchion.now() AS clock OFFSET 0) c
CROSS JOIN stanchion.holds h
JOIN stanchion.objects x ON x.id = h.object
JOIN (VALUES ('m'::"char", 'mutex'), ('s', 'semaphore'), ('w', 'wait group')) k (letter, kind) ON k.letter = x.kind
WHERE h.expiry > c.clock
UNION ALL
SELECT g.namespace, 'mutex', g.name, g.ticket, g.label, g.token, 1, to_timestamp(g.granted / 1000000.0), NULL, NULL
FROM (SELECT s.*, stanchion.session_key(s.namespace, s.name) AS key FROM stanchion.session_grants s OFFSET 0) g
JOIN stanchion.session_locks() l ON l.pid = g.pid AND l.granted AND l.key = g.key
JOIN pg_stat_activity a ON a.pid = g.pid AND coalesce(a.backend_start, g.started) = g.started;

-- heard: when the process of the waiter was heard last.
CREATE OR REPLACE VIEW stanchion.waiting AS
SELECT x.namespace, k.kind, x.name, w.arrival, w.ticket, w.process, w.weight,
       to_timestamp(w.since / 1000000.0) AS since,
       to_timestamp(abs(p.heard) / 1000000.0) AS heard
FROM stanchion.waiters w
JOIN stanchion.objects x ON x.id = w.object
JOIN (VALUES ('m'::"char", 'mutex'), ('s', 'semaphore'), ('w', 'wait group')) k (letter, kind) ON k.letter = x.kind
LEFT JOIN stanchion.processes p ON p.namespace = x.namespace AND p.process = w.process;
