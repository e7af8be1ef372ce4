-- The advisory locks that session mode keeps for itself; the texts of names begin with a number.
--
-- Argument: 'raise' (held while the sequence of tokens is raised), 'era' (shared, by all who draw tokens) or 'gate' (held
-- while somebody joins those). Returns the key. Locks: none. O(1).
CREATE FUNCTION stanchion.session_mark(what text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(('stanchion.' || what) COLLATE "C", 7281461950370518081);
$$;
