-- Returns the advisory locks that session mode uses for itself. They differ from all mutexes: the texts of names begin
-- with a number.
--
-- Argument: 'raise' (held while the sequence of tokens is raised), 'era' (shared, held by all sessions that draw
-- tokens) or 'gate' (held while a session joins these). Returns the key. Locks: none. O(1).
CREATE OR REPLACE FUNCTION stanchion.session_mark(what text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(('stanchion.' || what) COLLATE "C", 7281461950370518081);
$$;
