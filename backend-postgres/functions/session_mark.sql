-- session_mark: returns the advisory locks that session mode uses for itself. They differ from
-- those of all mutexes: the texts of names begin with a number.
--
-- Arguments   'raise': the lock is held while the sequence of tokens is raised
-- Returns     the key
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.session_mark(what text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(('stanchion.' || what) COLLATE "C", 7281461950370518081);
