-- What a role needs that connects with migrate=off.
GRANT USAGE ON SCHEMA "{schema}" TO "{role}";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO "{role}";
GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA "{schema}" TO "{role}";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "{schema}" TO "{role}";
REVOKE INSERT, UPDATE, DELETE ON stanchion.migrations FROM "{role}";
