-- The fencing tokens of session mode.
--
-- CACHE 1: a session that kept values for later would hand them out after larger values of other
-- sessions.
CREATE SEQUENCE stanchion.session_tokens AS bigint MINVALUE 1 MAXVALUE 9007199254740991 START 1 CACHE 1;
