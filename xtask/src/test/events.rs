//! The output of a test program about its tests, line by line.

use serde::Deserialize;

/// One line of libtest's machine-readable output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    Suite(Suite),
    Test(Event),
}

/// A program's summary.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Suite {
    Started,
    Ok,
    Failed,
}

/// An event of one test.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) event: What,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) exec_time: f64,
    #[serde(default)]
    pub(crate) stdout: String,
    /// The reason, for an ignored test.
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Started,
    Ok,
    Failed,
    Ignored,
    /// The test has run for over a minute.
    Timeout,
}

/// The arguments with which a test program prints these lines, with the time of each test.
pub(crate) const ARGUMENTS: [&str; 4] = ["-Z", "unstable-options", "--format=json", "--report-time"];

/// The variable with which a stable toolchain's test programs accept [`ARGUMENTS`]. Builds that a
/// test starts must not see it: some build scripts would run again.
pub(crate) const ALLOWED_BY: &str = "RUSTC_BOOTSTRAP";

/// The end of one test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It failed, with this output.
    Failed(String),
    /// It was ignored, for this reason.
    Skipped(String),
}

/// The output of one program so far.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) ended: Vec<Ended>,
    /// Tests that have begun and not ended.
    pub(crate) running: Vec<String>,
    /// Other lines of the program.
    pub(crate) others: Vec<String>,
    /// Whether its summary has come.
    pub(crate) is_complete: bool,
}

impl Told {
    /// Reads a line. Returns the test if the line says that one has ended.
    pub(crate) fn read(&mut self, line: &str) -> Option<&Ended> {
        match serde_json::from_str(line) {
            Ok(Line::Suite(Suite::Started)) => None,
            Ok(Line::Suite(Suite::Ok | Suite::Failed)) => {
                self.is_complete = true;
                None
            }
            Ok(Line::Test(event)) => self.note(event),
            Err(_) => {
                self.others.push(line.to_owned());
                None
            }
        }
    }

    fn note(&mut self, event: Event) -> Option<&Ended> {
        let verdict = match event.event {
            What::Started => {
                self.running.push(event.name);
                return None;
            }
            What::Timeout => return None,
            What::Ok => Verdict::Passed,
            What::Failed => Verdict::Failed(format!("{}{}", event.stdout, event.message)),
            What::Ignored => Verdict::Skipped(event.message),
        };
        self.running.retain(|name| *name != event.name);
        self.ended.push(Ended { name: event.name, verdict, seconds: event.exec_time });
        self.ended.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Told {
        let mut told = Told::default();
        for line in lines {
            told.read(line);
        }
        told
    }

    #[test]
    fn every_line_is_read() {
        let told = read(&[
            r#"{ "type": "suite", "event": "started", "test_count": 3 }"#,
            r#"{ "type": "test", "event": "started", "name": "a::b" }"#,
            r#"{ "type": "test", "event": "started", "name": "stuck" }"#,
            r#"{ "type": "test", "event": "timeout", "name": "stuck" }"#,
            "suite it: 326 cases",
            r#"{ "type": "test", "name": "a::b", "event": "failed", "exec_time": 1.5, "stdout": "why\n" }"#,
            r#"{ "type": "test", "name": "c", "event": "ignored", "message": "no clock" }"#,
            r#"{ "type": "test", "name": "d", "event": "ok", "exec_time": 0.25 }"#,
        ]);
        assert!(!told.is_complete);
        assert_eq!((told.running, told.others), (vec!["stuck".into()], vec!["suite it: 326 cases".into()]));
        let verdicts: Vec<_> = told.ended.iter().map(|ended| (ended.name.as_str(), &ended.verdict)).collect();
        let failed = Verdict::Failed("why\n".into());
        let skipped = Verdict::Skipped("no clock".into());
        assert_eq!(verdicts, [("a::b", &failed), ("c", &skipped), ("d", &Verdict::Passed)]);
    }

    #[test]
    fn the_summary_completes_it() {
        let summary = r#"{ "type": "suite", "event": "failed", "passed": 0, "failed": 1, "ignored": 0, "measured": 0, "filtered_out": 4, "exec_time": 0.1 }"#;
        assert!(read(&[summary]).is_complete);
    }
}
