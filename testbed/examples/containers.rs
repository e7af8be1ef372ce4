//! A Redis and a Postgres in containers until Ctrl-C or the end of input, for tests that take their
//! URLs from the environment: it prints a line `VARIABLE=URL` for each.

use std::error::Error;
use std::io::{self, Write};

use stanchion_testbed::servers::{self, POSTGRES_URL_VARIABLE, REDIS_URL_VARIABLE};

fn main() -> Result<(), Box<dyn Error>> {
    let servers = [(REDIS_URL_VARIABLE, servers::redis()?), (POSTGRES_URL_VARIABLE, servers::postgres()?)];
    for (variable, server) in servers {
        if !server.is_in_container() {
            return Err(format!("the server of {variable} is in no container").into());
        }
        println!("{variable}={}", server.url());
    }
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
