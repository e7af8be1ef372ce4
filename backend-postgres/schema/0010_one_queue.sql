-- Functions of the queue that session mode had at the server, beside that of lease mode.
DROP FUNCTION IF EXISTS stanchion.session_wait(text, text, integer);
DROP FUNCTION IF EXISTS stanchion.session_is_silent();
DROP FUNCTION IF EXISTS stanchion.session_lock_in(text, text, boolean, boolean);
DROP FUNCTION IF EXISTS stanchion.session_token_in(text, text, integer);
DROP FUNCTION IF EXISTS stanchion.session_step(text, text[], text[], boolean);
