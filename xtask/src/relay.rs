//! Runs test programs so that the machine does not stand idle at the end of each: many suites have a few cases that wait
//! for a minute, and one of them comes last. The next program starts while those still wait.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::libtest::Report;
use crate::programs::Program;

/// When a program has no more tests to end than these, the next one starts.
const LAST: usize = 2;
/// Programs at once at most.
const PROGRAMS: usize = 3;

enum Event {
    /// Only the program's last tests still run.
    Nearly,
    /// All that it has printed, and whether it went well.
    Ended { program: Program, output: Vec<String>, well: io::Result<bool> },
}

/// Runs each of the programs, and tells whether all went well. The report reads what one has printed when it has ended,
/// as if they had run one after the other.
///
/// # Errors
/// When a program cannot be started or its output cannot be read.
pub(crate) fn run(programs: Vec<Program>, threads: &str, report: &mut Report) -> io::Result<bool> {
    let (events, incoming) = mpsc::channel();
    let mut relay = Relay { waiting: programs.into(), running: 0, full: false, threads, events };
    let mut all_well = true;
    relay.start();
    while relay.running > 0 {
        match next(&incoming)? {
            Event::Nearly => relay.full = false,
            Event::Ended { program, output, well } => {
                relay.running -= 1;
                all_well &= well?;
                print(&program, &output, report)?;
            }
        }
        relay.start();
    }
    Ok(all_well)
}

fn next(incoming: &Receiver<Event>) -> io::Result<Event> {
    incoming.recv().map_err(io::Error::other)
}

fn print(program: &Program, output: &[String], report: &mut Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let header = format!("     Running {} ({})\n", program.package(), program.path);
    for line in [&header].into_iter().chain(output) {
        if report.read(line) {
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

struct Relay<'a> {
    waiting: VecDeque<Program>,
    running: usize,
    /// The program that was started last has more tests to end than [`LAST`].
    full: bool,
    threads: &'a str,
    events: Sender<Event>,
}

impl Relay<'_> {
    fn start(&mut self) {
        if self.full || self.running >= PROGRAMS {
            return;
        }
        let Some(program) = self.waiting.pop_front() else { return };
        (self.full, self.running) = (true, self.running + 1);
        let mut command = program.command();
        // A case that is a known gap passes and says so; without `--show-output` nobody would hear it.
        command.arg("--show-output").env("RUST_TEST_THREADS", self.threads);
        let events = self.events.clone();
        thread::spawn(move || {
            let mut output = Vec::new();
            let well = follow(command, &mut output, &events);
            // Nobody listens any more where another program could not be run.
            events.send(Event::Ended { program, output, well }).ok();
        });
    }
}

/// Reads a program's output to its end, and says when only its last tests run.
fn follow(mut command: Command, output: &mut Vec<String>, events: &Sender<Event>) -> io::Result<bool> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // It holds our copies of the writing end, without which the pipe would never end.
    drop(command);
    let (mut reader, mut line, mut left) = (BufReader::new(reader), Vec::new(), Left::default());
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line).into_owned();
        if left.read(&text) {
            events.send(Event::Nearly).ok();
        }
        output.push(text);
        line.clear();
    }
    let well = child.wait()?.success();
    if !left.told {
        events.send(Event::Nearly).ok();
    }
    Ok(well)
}

/// How many tests of a program have not ended.
#[derive(Default)]
struct Left {
    tests: Option<usize>,
    told: bool,
}

impl Left {
    /// Reads a line; true when there are no more than [`LAST`], once.
    fn read(&mut self, line: &str) -> bool {
        if let Some(count) =
            line.strip_prefix("running ").and_then(|rest| rest.split(' ').next()?.parse().ok())
        {
            self.tests = self.tests.or(Some(count));
        } else if line.starts_with("test ") && line.contains(" ... ") {
            self.tests = self.tests.map(|tests| tests.saturating_sub(1));
        }
        let nearly = !self.told && self.tests.is_some_and(|tests| tests <= LAST);
        self.told |= nearly;
        nearly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_may_start_when_two_tests_are_left() {
        let mut left = Left::default();
        let lines = [
            ("", false),
            ("running 4 tests", false),
            ("test a ... ok", false),
            ("test c has been running for over 60 seconds", false),
            ("test b ... ok", true),
            ("test c ... FAILED", false),
        ];
        for (line, nearly) in lines {
            assert_eq!(left.read(line), nearly, "{line}");
        }
        assert!(Left::default().read("running 1 test"));
        assert!(Left::default().read("running 0 tests"));
    }

    #[test]
    fn every_program_runs_and_a_failure_is_told() {
        let program = |path: &str| Program { folder: "/".to_owned(), path: path.to_owned() };
        let mut report = Report::new([].into());
        assert!(run(vec![program("true"), program("true")], "1", &mut report).unwrap());
        assert!(!run(vec![program("true"), program("false"), program("true")], "1", &mut report).unwrap());
        assert!(run(vec![program("/no/such/program")], "1", &mut report).is_err());
    }
}
