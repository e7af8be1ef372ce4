//! `serve`: a live page for browsers.

mod connections;

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use stanchion_web::Dashboard;
use tokio::net::TcpListener;

use crate::events;
use crate::exit::{Exit, Failure};
use crate::output::message;
use crate::signals::Signals;
use crate::url::{Target, first_line};
use crate::values;

/// The environment variable with the token.
const VARIABLE: &str = "STANCHION_SERVE_TOKEN";

/// Serve a live web page of names, holders, leases, queues and limiters, a JSON API and metrics
///
/// The page needs nothing from elsewhere. It looks at the store all the time, as `ls` does, and
/// asks for the holders of up to 500 names in each look; after a long look it pauses for four times
/// that length. Ctrl-C and SIGTERM end it with exit code 0, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2
/// with 128 and their number. JSON is at api/v1/names, OpenMetrics at metrics.
///
/// On an address of this machine alone everybody on it can read; on any other address a token is
/// needed, for all requests. There is no TLS: put a proxy that has it in front.
#[derive(Args, Clone, Debug)]
pub(crate) struct Serve {
    /// Only names that begin with this text
    #[arg(default_value = "", value_parser = values::prefix)]
    prefix: String,
    /// The address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    listen: SocketAddr,
    /// A host name by which browsers reach it, beside localhost; may be given several times.
    /// Without one, a page on an address that is not of this machine alone answers to every name
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Time between two looks at the store
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::interval)]
    interval: Duration,
    /// Let viewers with the token free mutexes and permits; standard error logs it
    #[arg(long)]
    allow_unlock: bool,
    /// A file whose first line is the token; otherwise it is taken from the variable
    /// STANCHION_SERVE_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How many connections there can be at a time (up to 1,000, with 64 descriptors left for the
    /// store, if not given); another one is answered with 503
    #[arg(long, value_name = "N", value_parser = values::count)]
    max_connections: Option<usize>,
    /// After this time a connection ends whose client sends no request, or only a part of its head,
    /// or takes nothing of an answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::idle_timeout)]
    idle_timeout: Duration,
}

pub(crate) async fn serve(options: &Serve, target: &Target) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let token = token(options)?;
    let is_local = options.listen.ip().is_loopback();
    if token.is_empty() && (!is_local || options.allow_unlock) {
        let why = if is_local { "--allow-unlock" } else { "an address that other machines reach" };
        return Err(Failure::Usage(format!("{why} needs a token: --token-file or the variable {VARIABLE}")));
    }
    events::show_audit();
    let opened = if options.allow_unlock { target.open().await } else { target.open_to_look().await };
    let store = opened?;
    let mut dashboard =
        Dashboard::new(store).title(target.namespace()?).prefix(&options.prefix).interval(options.interval);
    dashboard = dashboard.token(&token).token_to_read(!is_local);
    if options.allow_unlock {
        dashboard = dashboard.allow_unlock(values::operator());
    }
    if is_local || !options.hosts.is_empty() {
        dashboard = dashboard.hosts(hosts(options));
    }
    let (router, looks) = dashboard.watch()?;
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(Failure::system("the address cannot be used"))?;
    let address = listener.local_addr().map_err(Failure::system("the address cannot be used"))?;
    let most = options.max_connections.unwrap_or_else(connections::most);
    message(format_args!("serving http://{address}/"));
    tokio::select! {
        // A viewer's stream has no end to wait for.
        signal = signals.ends_waiting() => Ok(end_by(signal)),
        never = connections::serve(listener, router, most, options.idle_timeout) => match never {},
        () = looks => Ok(Exit::INTERNAL),
    }
}

/// Returns the exit code after a signal. A service manager ends a server by `SIGTERM`, a user by
/// Ctrl-C: that is a success. By any other signal it ends as a program does that does not know it,
/// and may be started again.
fn end_by(signal: Exit) -> Exit {
    let is_wish = [Signal::INT, Signal::TERM].iter().any(|wish| signal == Exit::signal(wish.as_raw()));
    if is_wish { Exit::DONE } else { signal.as_code() }
}

fn token(options: &Serve) -> Result<String, Failure> {
    match &options.token_file {
        Some(path) => first_line(path, "token"),
        None => Ok(env::var(VARIABLE).unwrap_or_default()),
    }
}

/// Returns the names of this machine that only it knows, and the given names.
fn hosts(options: &Serve) -> Vec<String> {
    let own = match options.listen {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let known = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
    known.into_iter().chain([own]).chain(options.hosts.iter().cloned()).collect()
}
