//! The endpoint as a program; see the README beside it.

#![expect(clippy::disallowed_methods, reason = "a program owns its runtime")]

use std::io;
use std::process::ExitCode;

use stanchion_ingest::{Settings, USAGE, run};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Installed before the address is printed, so that no signal comes too early.
    let (terminate, interrupt) = match signals() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("cannot listen to signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    let listening = |address| println!("listening on {address}");
    match run(&settings, listening, either(terminate, interrupt)).await {
        Ok(summary) => {
            println!("{summary}");
            if summary.lost() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn signals() -> io::Result<(Signal, Signal)> {
    Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

async fn either(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
