//! `cargo xtask servers`: runs the test servers for manual use.

use std::io::{self, Write};

use stanchion_testbed::servers::{
    POSTGRES_URL_VARIABLE, PostgresOptions, PostgresServer, REDIS_URL_VARIABLE, RedisOptions, RedisServer,
};

use crate::Outcome;

/// Runs both servers until Ctrl-C or the end of input. Their data is removed at the end.
pub(crate) fn run() -> Outcome {
    let redis = RedisServer::start(RedisOptions::default().append_only(true))?;
    let postgres = PostgresServer::start(PostgresOptions::default())?;
    println!("{REDIS_URL_VARIABLE}={}", redis.url());
    println!("{POSTGRES_URL_VARIABLE}={}", postgres.url());
    io::stdout().flush()?;
    eprintln!("Ctrl-C or the end of input stops them.");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(true)
}
