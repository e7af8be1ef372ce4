-- hints: returns the hints that the steps of this transaction have noted: "process:ticket," for each; empty or null if none.
--
-- O(1); takes no locks.
CREATE OR REPLACE FUNCTION stanchion.hints() RETURNS text
LANGUAGE sql VOLATILE
RETURN current_setting('stanchion_hints.noted', true);
