//! `top`: a live view of holds, waiters and levels of limiters.

mod keys;
mod model;
mod snapshot;
mod view;

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use ratatui::DefaultTerminal;
use rustix::process::Signal;
use stanchion::spi::clock;
use stanchion::{Store, StoreExt as _};

use self::keys::Wish;
use self::model::{Hold, Model};
use self::snapshot::Snapshot;
use crate::errors;
use crate::events;
use crate::exit::{Exit, Failure};
use crate::signals::{Signals, stop, stop_group};
use crate::url::Target;
use crate::values;

/// Between two drawings: lease bars run down meanwhile.
const FRAME: Duration = Duration::from_millis(250);

/// Watch names, holders, leases, queues and limiters as they change
///
/// Keys: up and down (or k and j) choose, Enter shows all holders, f frees the chosen hold after a
/// question, s sorts by the next column, / filters by a part of the name, Esc goes back, Space
/// pauses, ? explains, q quits. Each refresh looks at all keys of the server, in small parts, and
/// asks for the holders of the names on the screen. Up to 2,000 names are shown; where there are
/// more, each kind has a share, those in use come before idle ones, and a refresh looks at the keys
/// once more for each kind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Top {
    /// Only names that begin with this text
    #[arg(default_value = "", value_parser = values::prefix)]
    prefix: String,
    /// Time between two looks at the store
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::interval)]
    interval: Duration,
}

pub(crate) async fn top(options: &Top, target: &Target) -> Result<Exit, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::Usage("top needs a terminal: use ls for programs".to_owned()));
    }
    let store = target.open_to_look().await?;
    // The library's warnings would stand across the picture; the view shows failed questions by
    // itself.
    events::keep_warnings();
    let mut signals = Signals::new()?;
    let mut model = Model::new(store.capabilities().store);
    loop {
        let mut terminal = ratatui::try_init().inspect_err(|_| ratatui::restore());
        let pause = match &mut terminal {
            Ok(terminal) => watch(options, &*store, terminal, &mut model, &mut signals).await,
            Err(_) => Ok(Pause::End(Exit::INTERNAL)),
        };
        // Whatever comes next finds the terminal as it was, also its cursor.
        ratatui::restore();
        drop(terminal.map_err(Failure::system("the terminal cannot be used"))?);
        match pause? {
            Pause::Stop => stop(),
            Pause::End(exit) => return Ok(exit),
        }
    }
}

/// Why nothing is shown any more.
enum Pause {
    End(Exit),
    /// Until this process is told to go on.
    Stop,
}

type Looking<'a> = Pin<Box<dyn Future<Output = Snapshot> + Send + 'a>>;

/// Shows the store until the user quits, or a signal comes.
async fn watch(
    options: &Top,
    store: &dyn Store,
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    signals: &mut Signals,
) -> Result<Pause, Failure> {
    let mut events = EventStream::new();
    let mut looking: Option<Looking<'_>> = None;
    let mut next_look = clock::now();
    loop {
        let drawn = terminal.draw(|frame| view::draw(frame, model));
        drawn.map_err(Failure::Output)?;
        if looking.is_none() && !model.is_paused() && clock::now() >= next_look {
            next_look = clock::now() + options.interval;
            looking = Some(Box::pin(snapshot::take(store, &options.prefix, model.on_screen())));
        }
        tokio::select! {
            event = events.next() => {
                let event = event.ok_or_else(closed)?.map_err(Failure::Output)?;
                match wished(model, &event) {
                    Wish::Nothing => {}
                    Wish::Look => next_look = clock::now(),
                    Wish::Quit => return Ok(Pause::End(Exit::DONE)),
                    // The signal comes to this process as well.
                    Wish::Stop => stop_group(),
                    Wish::Free(hold) => {
                        let said = freed(store, &hold).await;
                        model.say(said);
                        next_look = clock::now();
                    }
                }
            }
            snapshot = ready(&mut looking) => {
                looking = None;
                // It listed each kind by itself as well: looks must not be all that the store does.
                if snapshot.is_cut {
                    next_look = next_look.max(clock::now() + snapshot.took);
                }
                model.update(snapshot);
                if let Some(warning) = events::take_warnings().pop() {
                    model.say(warning);
                }
            }
            signal = signals.next() => match signal {
                Signal::TSTP => return Ok(Pause::Stop),
                Signal::CONT => {}
                signal => return Ok(Pause::End(Exit::signal(signal.as_raw()))),
            },
            () = clock::sleep(FRAME) => {}
        }
    }
}

/// Frees a hold; returns what became of it.
async fn freed(store: &dyn Store, hold: &Hold) -> String {
    let (kind, name) = (hold.key.0, &hold.key.1);
    match store.force_free(kind, name, hold.ticket, &values::operator()).await {
        Ok(true) => format!("freed {name:?}"),
        Ok(false) => format!("{name:?} is not held by that holder any more"),
        Err(error) => format!("{name:?} was not freed: {}", errors::text(&error)),
    }
}

/// Waits for the look that is under way; for ever if there is none.
async fn ready(looking: &mut Option<Looking<'_>>) -> Snapshot {
    match looking {
        Some(looking) => looking.as_mut().await,
        None => std::future::pending().await,
    }
}

fn wished(model: &mut Model, event: &Event) -> Wish {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => keys::press(model, *key),
        _ => Wish::Nothing,
    }
}

fn closed() -> Failure {
    Failure::Output(io::ErrorKind::BrokenPipe.into())
}
