-- Returns the requests $3 whose session still holds the mutex and has not declined, and the
-- sessions that have declined. $1 namespace, $2 name.
SELECT array_agg(e.id) FILTER (WHERE NOT e.declined), array_agg(e.pid) FILTER (WHERE e.declined)
FROM stanchion.session_evictions e JOIN stanchion.session_holders($1, $2) h ON h.pid = e.pid AND h.holds
WHERE e.id = ANY ($3)
