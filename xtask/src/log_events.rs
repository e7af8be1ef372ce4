//! Compares what the library tells by `tracing` with the guide's page about it.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::Outcome;
use crate::workspace::root;

const PAGE: &str = "src/guide/tracing.md";
const SOURCES: [&str; 8] = [
    "core/src",
    "backend-memory/src",
    "backend-redis/src",
    "backend-postgres/src",
    "stanchion-tower/src",
    "stanchion-web/src",
    "stanchion-cli/src",
    "src",
];
/// The levels, the important ones first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// The last level at which an event must have a name.
const NAMED: usize = 2;

/// One use of a macro of `tracing`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    level: usize,
    is_span: bool,
    name: Option<String>,
    has_message: bool,
    fields: Vec<String>,
}

/// Lists the events without a literal message, those at `info` and above without a name, the names
/// and fields that the page does not list, and those that only the page has. Returns `true` if
/// there are none.
pub(crate) fn check() -> Outcome {
    let page = fs::read_to_string(root().join(PAGE))?;
    let [events, spans, fields] = ["Events", "Spans", "Fields"].map(|heading| listed(&page, heading));
    let (mut problems, mut used, mut count) = (Vec::new(), BTreeSet::new(), 0);
    let files =
        Command::new("git").args(["ls-files", "--"]).args(SOURCES).current_dir(root()).output()?.stdout;
    for path in String::from_utf8(files)?.lines().filter(|path| path.ends_with(".rs")) {
        // A deleted file stays listed until the deletion is committed.
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        for call in calls(&text) {
            count += 1;
            let mut problem = |what: &str| problems.push(format!("{path}: {what}: {call:?}"));
            if !call.is_span && !call.has_message {
                problem("no literal message");
            }
            if call.name.is_none() && (call.is_span || call.level <= NAMED) {
                problem("no name");
            }
            let names = if call.is_span { &spans } else { &events };
            if call.name.as_ref().is_some_and(|name| !names.contains(name)) {
                problem("a name that the guide does not list");
            }
            for field in call.fields.iter().filter(|field| !fields.contains(*field)) {
                problem(&format!("the guide does not list the field {field}"));
            }
            used.extend(call.fields.into_iter().chain(call.name));
        }
    }
    let all = events.iter().chain(&spans).chain(&fields);
    problems
        .extend(all.filter(|name| !used.contains(*name)).map(|name| format!("{PAGE}: nothing has {name}")));
    problems.iter().for_each(|problem| println!("{problem}"));
    println!("{count} events and spans, {} problems", problems.len());
    Ok(problems.is_empty() && count > 0)
}

/// Returns the first cells of the table under a heading of the page.
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split("\n# ").find(|section| section.lines().next() == Some(heading));
    let rows = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).map(str::to_owned).collect()
}

/// Returns the uses of `tracing`'s macros in a source file.
fn calls(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    for (level, word) in LEVELS.iter().enumerate() {
        for (ending, is_span) in [("!(", false), ("_span!(", true)] {
            for (at, found) in text.match_indices(&format!("{word}{ending}")) {
                let before = &text[..at];
                let is_comment = before.rsplit('\n').next().is_some_and(|line| line.contains("//"));
                let is_longer = before.ends_with(|before: char| before.is_alphanumeric() || before == '_');
                if !is_comment && !is_longer {
                    calls.push(call(level, is_span, &text[at + found.len()..]));
                }
            }
        }
    }
    calls
}

/// Reads a call, of which `text` begins with the arguments.
fn call(level: usize, is_span: bool, text: &str) -> Call {
    let mut call = Call { level, is_span, ..Call::default() };
    for argument in arguments(text) {
        let literal = argument.strip_prefix('"').and_then(|rest| rest.split('"').next());
        if let Some(name) = argument.strip_prefix("name: ") {
            call.name = Some(name.trim_matches('"').to_owned());
        } else if let Some(fields) = argument.strip_prefix('{') {
            call.fields.extend(arguments(fields).into_iter().map(field));
        } else if let Some(literal) = literal {
            if is_span {
                call.name = Some(literal.to_owned());
            } else {
                call.has_message = !literal.is_empty() && !literal.contains('{');
            }
        } else {
            call.fields.push(field(argument));
        }
    }
    call
}

fn field(argument: &str) -> String {
    argument.split(" = ").next().unwrap_or_default().trim_start_matches(['%', '?']).to_owned()
}

/// Returns the arguments up to the delimiter that closes them.
fn arguments(text: &str) -> Vec<&str> {
    let (mut arguments, mut begin, mut depth, mut in_text, mut is_escaped) = (Vec::new(), 0, 0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ',' | ')' | ']' | '}' if depth == 0 => {
                arguments.push(text[begin..at].trim());
                begin = at + 1;
                if character != ',' {
                    break;
                }
            }
            _ => {}
        }
    }
    arguments.retain(|argument| !argument.is_empty());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read() {
        let text = r#"
            // warn!("not this one");
            tracing::warn!(name: "a.b", { x.y = f(1, 2), z = %"},", }, "it happens, (often)");
            tracing::debug!(%error, "so it is {x}");
            let span = tracing::debug_span!("s", w = if a { 1 } else { 2 }, e.type = Empty);
            my_warn!("nor this");
        "#;
        let found = |level, is_span, name: Option<&str>, has_message, fields: &[&str]| {
            let (name, fields) =
                (name.map(str::to_owned), fields.iter().map(|&field| field.to_owned()).collect());
            Call { level, is_span, name, has_message, fields }
        };
        assert_eq!(
            calls(text),
            [
                found(1, false, Some("a.b"), true, &["x.y", "z"]),
                found(3, false, None, false, &["error"]),
                found(3, true, Some("s"), false, &["w", "e.type"]),
            ]
        );
    }

    #[test]
    fn every_event_is_as_the_guide_says() {
        assert!(check().unwrap());
    }
}
