//! Credentials that change: each connection has those of its moment.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::deployment::{grants, make_schema};
use crate::common::{MODES, REQUEST};
use sqlx::postgres::PgConnectOptions;
use stanchion_conformance::support::eventually;
use stanchion_core::{ErrorKind, MutexOptions, Result, Store};
use stanchion_postgres::{Credentials, PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

const LONG: Duration = Duration::from_secs(20);

async fn locks(store: &PostgresStore) -> Result<()> {
    let guard = store.mutex("m", MutexOptions::default())?.lock_for(LONG / 4).await?;
    guard.expect("nobody else has it for long").release().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_connection_has_the_credentials_of_its_moment() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    make_schema(&server);
    server.role("app", "first", &grants("app").join("\n")).unwrap();
    let change = |password: &str| {
        server.sql(&format!("ALTER ROLE app PASSWORD '{password}'")).unwrap();
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'").unwrap();
    };
    for mode in MODES {
        change("first");
        let password = Arc::new(Mutex::new("first"));
        let given = Arc::clone(&password);
        let options: PgConnectOptions = server.url().parse().unwrap();
        let store = PostgresBuilder::from_options(options.username("nobody").password("wrong"))
            .namespace(format!("{mode:?}"))
            .mutex(mode)
            .migrate(false)
            .request_timeout(REQUEST)
            .credentials(move || {
                let password = *given.lock().unwrap();
                async move {
                    if password.is_empty() {
                        return Err(io::Error::other("the vault is sealed").into());
                    }
                    Ok(Credentials::user("app", password))
                }
            })
            .connect()
            .await
            .unwrap();
        locks(&store).await.unwrap();
        *password.lock().unwrap() = "second";
        change("second");
        eventually(LONG, "a lock", || async { locks(&store).await.is_ok() }).await;
        *password.lock().unwrap() = "";
        change("second");
        let refused = || async {
            locks(&store).await.is_err_and(|error| {
                error.kind() == ErrorKind::Unavailable && format!("{error:?}").contains("the vault is sealed")
            })
        };
        eventually(LONG, "the program's own error", refused).await;
    }
}
