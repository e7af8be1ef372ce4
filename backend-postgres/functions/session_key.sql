-- session_key: returns the advisory lock of a mutex in session mode: one bigint in the database's
-- only space of such keys.
--
-- Another schema gives other keys. Two names with the same key only exclude each other; which ones
-- do is known to nobody who does not know the schema's secret.
--
-- Arguments   the namespace and the name
-- Returns     the key: the first 64 bits of a SHA-256 of the secret, the namespace and the name. In
--             `pg_locks` its upper 32 bits are classid, its lower ones objid, and objsubid is 1
-- Complexity  O(length)
CREATE OR REPLACE FUNCTION stanchion.session_key(namespace text, name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || encode(substring(sha256(
    stanchion.session_secret() || convert_to(length(namespace)::text || ':' || namespace || ':' || name, 'UTF8')
) FROM 1 FOR 8), 'hex'))::bit(64)::bigint;
