-- session_key: returns the advisory lock of a mutex in session mode: one bigint in the database's
-- only space of such keys.
--
-- Another schema gives other keys. Two names with the same key only exclude each other.
--
-- Arguments   the namespace and the name
-- Returns     the key; in `pg_locks` its upper 32 bits are classid, its lower ones objid, and
--             objsubid is 1
-- Complexity  O(length)
CREATE OR REPLACE FUNCTION stanchion.session_key(namespace text, name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(
    ('stanchion.' || length(namespace)::text || ':' || namespace || ':' || name) COLLATE "C", 7281461950370518081);
