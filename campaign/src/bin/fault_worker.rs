//! The worker program of fault campaigns. `cargo xtask faults` starts it. It calls one store in
//! every way and records the answers.

#![expect(clippy::disallowed_methods, reason = "a program owns its runtime")]

use std::process::ExitCode;

use stanchion_campaign::connected;
use stanchion_campaign::rounds::Work;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(work) = Work::parse(&arguments) else {
        eprintln!("this is a worker of a campaign: run `cargo xtask faults`");
        return ExitCode::from(2);
    };
    match run(&work).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a worker of a campaign: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(work: &Work) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let store = connected(work.url()).await?;
    work.run(store).await
}
