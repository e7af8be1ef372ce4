-- hints: returns the hints that the steps of this transaction have noted.
--
-- Returns     `process:ticket,` for each; empty or null if there are none
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.hints() RETURNS text
LANGUAGE sql VOLATILE
RETURN current_setting('stanchion_hints.noted', true);
