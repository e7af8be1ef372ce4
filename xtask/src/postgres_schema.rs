//! `cargo xtask postgres-schema`: what an administrator runs before a store connects with `migrate=off`.

use crate::Outcome;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    schema: String,
    role: Option<String>,
    after: i64,
}

impl Options {
    /// Reads the arguments; `None` if they make no sense.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { schema: "stanchion".to_owned(), role: None, after: 0 };
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--schema" => options.schema.clone_from(value),
                [name, value] if name == "--role" => options.role = Some(value.clone()),
                [name, value] if name == "--after" => options.after = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Prints it.
pub(crate) fn run(options: &Options) -> Outcome {
    print!("{}", stanchion_postgres::schema_sql(&options.schema, options.role.as_deref(), options.after)?);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parsed(arguments: &[&str]) -> Option<Options> {
        Options::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_come_in_pairs() {
        let options = parsed(&["--role", "app", "--schema", "locks", "--after", "7"]).unwrap();
        assert_eq!(options, Options { schema: "locks".to_owned(), role: Some("app".to_owned()), after: 7 });
        assert!(parsed(&[]).is_some());
        for wrong in [&["--role"][..], &["app"], &["--after", "x"], &["--rolle", "app"]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }
}
