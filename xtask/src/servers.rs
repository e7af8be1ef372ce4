//! `cargo xtask servers`: the test servers, for use by hand.

use std::io::{self, Write};

use stanchion_testbed::servers::{
    POSTGRES_URL_VARIABLE, PostgresOptions, PostgresServer, REDIS_URL_VARIABLE, RedisOptions, RedisServer,
};

use crate::Outcome;

/// Runs both servers until Ctrl-C or the end of input. Their data goes with them.
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
