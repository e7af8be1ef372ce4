//! Compares the server's answers with the stored payloads.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::connection::Record;
use crate::payload;
use crate::settings::Settings;

/// The findings of a run.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    answers: BTreeMap<u16, u64>,
    accepted_in_time: u64,
    unanswered: u64,
    /// Payloads that were accepted.
    accepted: u64,
    missing: u64,
    twice: u64,
    /// Payloads that were stored although their request was refused.
    refused: u64,
    /// Payloads that were stored although their request was not answered, which is allowed.
    unanswered_stored: u64,
    /// Lines of objects that no connection sent.
    foreign: u64,
}

/// Number of times that each payload of each connection is stored.
type Times = Vec<Vec<u8>>;

impl Audit {
    /// Reads every object below the folder.
    pub(crate) fn of(records: &[Record], folder: &Path, settings: &Settings) -> io::Result<Self> {
        let payloads = settings.payloads as usize;
        let mut audit = Self::default();
        let mut times: Times = records.iter().map(|record| vec![0; record.sent * payloads]).collect();
        audit.read(folder, &mut times, settings.bytes)?;
        for (record, times) in records.iter().zip(&times) {
            audit.unanswered += (record.sent - record.answers.len()) as u64;
            for (request, stored) in times.chunks(payloads).enumerate() {
                let answer = record.answers.get(request).copied();
                audit.judge(answer, request < record.in_time, stored);
            }
        }
        Ok(audit)
    }

    pub(crate) fn is_well(&self) -> bool {
        self.accepted > 0 && self.missing + self.twice + self.refused + self.foreign == 0
    }

    /// Returns the findings as text, with the rate for the time before `SIGTERM`.
    pub(crate) fn report(&self, loaded: Duration) -> String {
        let count = |status: &dyn Fn(u16) -> bool| -> u64 {
            self.answers.iter().filter(|(answer, _)| status(**answer)).map(|(_, count)| count).sum()
        };
        let good = count(&|status| status / 100 == 2);
        let full = count(&|status| status == 503);
        let other = count(&|status| status / 100 != 2 && status != 503);
        let a_minute = u128::from(self.accepted_in_time) * 60_000 / loaded.as_millis().max(1);
        format!(
            "requests: {good} answered 2xx, {full} answered 503, {other} otherwise, {} not answered\n\
             rate: {} answered 2xx in {:.1} s before SIGTERM: {a_minute} a minute\n\
             payloads: {} accepted, {} missing, {} twice, {} refused yet stored, {} foreign, \
             {} stored of requests that were not answered",
            self.unanswered,
            self.accepted_in_time,
            loaded.as_secs_f64(),
            self.accepted,
            self.missing,
            self.twice,
            self.refused,
            self.foreign,
            self.unanswered_stored,
        )
    }

    fn read(&mut self, folder: &Path, times: &mut Times, bytes: usize) -> io::Result<()> {
        let mut expected = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.read(&entry.path(), times, bytes)?;
                continue;
            }
            let object = fs::read(entry.path())?;
            for line in object.split_inclusive(|byte| *byte == b'\n') {
                let sent = payload::identity(line).and_then(|(connection, number)| {
                    expected.clear();
                    payload::push(&mut expected, u32::try_from(connection).ok()?, number, bytes);
                    expected.push(b'\n');
                    times.get_mut(connection)?.get_mut(number).filter(|_| expected == line)
                });
                match sent {
                    Some(times) => *times = times.saturating_add(1),
                    None => self.foreign += 1,
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, answer: Option<u16>, in_time: bool, stored: &[u8]) {
        let count = |matches: fn(u8) -> bool| stored.iter().filter(|times| matches(**times)).count() as u64;
        self.twice += count(|times| times > 1);
        let Some(status) = answer else {
            self.unanswered_stored += count(|times| times > 0);
            return;
        };
        *self.answers.entry(status).or_default() += 1;
        if status / 100 == 2 {
            self.accepted += stored.len() as u64;
            self.accepted_in_time += u64::from(in_time);
            self.missing += count(|times| times == 0);
        } else {
            self.refused += count(|times| times > 0);
        }
    }
}
