//! Postgres: triggers write each change of a hold into a separate table, in the same transaction.

use std::collections::HashMap;

use stanchion_core::{Kind, Name, Ticket};

use crate::history::{Entry, HoldChange, ObjectId};
use stanchion_testbed::servers::{PostgresServer, ServerError};

/// Installs an event trigger: the first client to connect creates the store's schema, and its table
/// then gets the triggers.
const INSTALL: &str = r"
CREATE SCHEMA audit;

CREATE TABLE audit.changes (
    id bigserial PRIMARY KEY,
    object bigint NOT NULL,
    ticket uuid NOT NULL,
    change text NOT NULL,
    token bigint,
    weight bigint,
    at bigint,
    until bigint
);

CREATE TABLE audit.objects (id bigint PRIMARY KEY, namespace text, kind text, name text);

CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO audit.changes (object, ticket, change) VALUES (OLD.object, OLD.ticket, 'ended');
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO audit.changes (object, ticket, change, until)
        VALUES (NEW.object, NEW.ticket, 'renewed', NEW.expiry);
    ELSE
        INSERT INTO audit.objects SELECT o.id, o.namespace, o.kind, o.name FROM stanchion.objects o
        WHERE o.id = NEW.object ON CONFLICT DO NOTHING;
        INSERT INTO audit.changes (object, ticket, change, token, weight, at, until)
        VALUES (NEW.object, NEW.ticket, 'granted', NEW.token, NEW.weight, NEW.granted, NEW.expiry);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION audit.install() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_event_trigger_ddl_commands() c WHERE c.objid = to_regclass('stanchion.holds')
    ) THEN
        CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON stanchion.holds
        FOR EACH ROW EXECUTE FUNCTION audit.note();
    END IF;
END $$;

CREATE EVENT TRIGGER audit ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION audit.install();
";

/// Makes a server keep the record. The server must not have the store's schema yet.
///
/// # Errors
/// As [`PostgresServer::sql`].
pub(in crate::rounds) fn install(server: &PostgresServer) -> Result<(), ServerError> {
    server.script(INSTALL).map(drop)
}

/// Returns the record of a namespace and deletes it.
///
/// # Errors
/// As [`PostgresServer::sql`], and if a row cannot be parsed.
pub(in crate::rounds) fn take(
    server: &PostgresServer,
    namespace: &str,
) -> Result<Vec<Entry>, Box<dyn std::error::Error + Send + Sync>> {
    let literal = namespace.replace('\'', "''");
    let objects = server.sql(&format!(
        "SELECT concat_ws(' ', id, kind, name) FROM audit.objects WHERE namespace = '{literal}'"
    ))?;
    let objects: HashMap<&str, ObjectId> =
        objects.lines().map(|row| object(row).ok_or_else(|| wrong(row))).collect::<Result<_, _>>()?;
    let changes = server.sql(
        "SELECT concat_ws(' ', object, replace(ticket::text, '-', ''), change, token, weight, at, until) \
         FROM audit.changes ORDER BY id",
    )?;
    let mut entries = Vec::new();
    for row in changes.lines() {
        let (id, rest) = row.split_once(' ').ok_or_else(|| wrong(row))?;
        let Some(object) = objects.get(id) else { continue };
        entries.push(entry(object, rest).ok_or_else(|| wrong(row))?);
    }
    server.sql("TRUNCATE audit.changes, audit.objects")?;
    Ok(entries)
}

fn wrong(row: &str) -> String {
    format!("{row:?} is no row of a record")
}

fn object(row: &str) -> Option<(&str, ObjectId)> {
    let mut words = row.splitn(3, ' ');
    let (id, kind, name) = (words.next()?, words.next()?, words.next()?);
    let kind = match kind {
        "m" => Kind::Mutex,
        "s" => Kind::Semaphore,
        "w" => Kind::WaitGroup,
        _ => return None,
    };
    Some((id, ObjectId::new(kind, Name::new(name).ok()?)))
}

fn entry(object: &ObjectId, row: &str) -> Option<Entry> {
    let words: Vec<&str> = row.split(' ').collect();
    let (ticket, change) = match words.as_slice() {
        [ticket, "granted", token, weight, at, until] => {
            let token = token.parse().ok()?;
            let (weight, at, until) = (weight.parse().ok()?, at.parse().ok()?, until.parse().ok()?);
            (ticket, HoldChange::Granted { token, weight, at, until })
        }
        [ticket, "renewed", until] => (ticket, HoldChange::Renewed { until: until.parse().ok()? }),
        [ticket, "ended"] => (ticket, HoldChange::Ended),
        _ => return None,
    };
    Some(Entry { object: object.clone(), ticket: ticket.parse::<Ticket>().ok()?, change })
}

#[cfg(test)]
mod tests {
    use stanchion_core::FencingToken;

    use super::*;

    #[test]
    fn rows_become_entries() {
        let (id, mutex) = object("7 m a name").unwrap();
        assert_eq!((id, mutex.kind, mutex.name.as_str()), ("7", Kind::Mutex, "a name"));
        let ticket = "0123456789abcdef0123456789abcdef";
        let granted = entry(&mutex, &format!("{ticket} granted 5 1 10 20")).unwrap();
        let token = FencingToken::new(5).unwrap();
        assert_eq!(granted.change, HoldChange::Granted { token, weight: 1, at: 10, until: 20 });
        assert_eq!(granted.ticket.to_string(), ticket);
        let ended = entry(&mutex, &format!("{ticket} ended")).unwrap();
        assert_eq!(ended.change, HoldChange::Ended);
        assert_eq!(entry(&mutex, &format!("{ticket} renewed")), None);
        assert_eq!(object("7 l limiter"), None);
    }
}
