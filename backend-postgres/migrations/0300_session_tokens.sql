-- The fencing tokens of session mode.
--
-- CACHE 1: a session that keeps values for later would hand them out behind those of others.
CREATE SEQUENCE stanchion.session_tokens AS bigint MINVALUE 1 MAXVALUE 9007199254740991 START 1 CACHE 1;
