-- What a role needs that connects with migrate=off: the list in the manual.
GRANT USAGE ON SCHEMA "{schema}" TO "{role}";
GRANT SELECT ON stanchion.migrations TO "{role}";
GRANT SELECT, INSERT ON stanchion.namespaces TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.objects TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.holds TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.tombstones TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.waiters TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.watchers TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.processes TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.grace TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.limiters TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.limit_tickets TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.limit_answers TO "{role}";
GRANT SELECT, USAGE, UPDATE ON SEQUENCE stanchion.session_tokens TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.session_evictions TO "{role}";
GRANT SELECT, INSERT, UPDATE ON stanchion.fences TO "{role}";
