-- Tries a mutex that nobody waits for. $1 namespace, $2 name. Returns its token; 0 if it is locked;
-- -2 if a waiter or a lease is there.
SELECT CASE
    WHEN EXISTS (
        SELECT FROM stanchion.objects x
        WHERE x.namespace = $1 AND x.kind = 'm' AND x.name = $2 AND (x.waiting > 0 OR x.used > 0 AND EXISTS (
            SELECT FROM stanchion.holds h WHERE h.object = x.id AND h.expiry > stanchion.now()))) THEN -2
    WHEN pg_try_advisory_lock(stanchion.session_key($1, $2)) THEN stanchion.session_token()
    ELSE 0 END
