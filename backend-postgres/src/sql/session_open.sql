-- Says so again: a pooler may drop what a connection asks for at its start. The last one is of
-- Postgres 17.
SELECT
    stanchion.session_open(),
    (SELECT count(set_config(s.name, s.value, false)) FROM unnest($1::text[], $2::text[]) s (name, value)),
    (SELECT set_config(p.name, '0', false) FROM pg_settings p WHERE p.name = 'transaction_timeout')
