//! The store's URL: where it comes from, and that no text shows it.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use stanchion::Store;

use crate::errors;
use crate::exit::Failure;
use crate::output::message;

/// The environment variable with the URL.
const VARIABLE: &str = "STANCHION_URL";

/// The namespace where the URL names none.
const DEFAULT_NAMESPACE: &str = "stanchion";
/// The bit of a file's mode by which users other than its owner and group read it.
const OTHERS_READ: u32 = 0o004;

/// Names the store.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// The store's URL. Other users of the machine can read it in the list of processes: with a
    /// password, use --url-file or the variable STANCHION_URL
    #[arg(long, global = true, value_name = "URL", conflicts_with = "url_file", help_heading = "Store")]
    url: Option<String>,
    /// A file whose first line is the URL
    #[arg(long, global = true, value_name = "FILE", help_heading = "Store")]
    url_file: Option<PathBuf>,
}

impl Target {
    /// Returns the URL: that of the command line, of the file, or of the environment.
    fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        if let Some(path) = &self.url_file {
            return first_line(path, "URL");
        }
        match env::var(VARIABLE) {
            Ok(url) if !url.is_empty() => Ok(url),
            Err(env::VarError::NotUnicode(_)) => Err(Failure::Usage(format!("{VARIABLE} is not UTF-8"))),
            _ => {
                Err(Failure::Usage(format!("which store? Give --url, --url-file or the variable {VARIABLE}")))
            }
        }
    }

    /// Opens the store, for a command that may write.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(stanchion::connect(&self.checked_url()?).await?)
    }

    /// Opens the store, for a command that only looks: a schema that is missing or older stays as
    /// it is, unless the URL says otherwise.
    pub(crate) async fn open_to_look(&self) -> Result<Arc<dyn Store>, Failure> {
        let given = self.checked_url()?;
        let Some(url) = without_migration(&given) else { return Ok(stanchion::connect(&given).await?) };
        stanchion::connect(&url).await.map_err(|error| match errors::advises_migration(&error) {
            true => Failure::NotMigrated(error),
            false => error.into(),
        })
    }

    /// Returns the namespace that the URL names, as it is written there.
    pub(crate) fn namespace(&self) -> Result<String, Failure> {
        Ok(namespace_of(&self.url()?).to_owned())
    }

    /// Returns the URL of a store that others see, too.
    fn checked_url(&self) -> Result<String, Failure> {
        let url = self.url()?;
        if url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("memory:")) {
            let alone = "a memory store is seen by its own process alone: name a Redis or a Postgres";
            return Err(Failure::Usage(alone.to_owned()));
        }
        Ok(url)
    }
}

fn namespace_of(url: &str) -> &str {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').find_map(|part| part.strip_prefix("namespace=")).unwrap_or(DEFAULT_NAMESPACE)
}

/// Returns a URL of Postgres with `migrate=off`; `None` for a URL of another store, and for one
/// that has the parameter itself.
fn without_migration(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !["postgres", "postgresql"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let query = rest.split_once('?').map(|(_, query)| query);
    if query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("migrate"))) {
        return None;
    }
    let first = if query.is_some() { '&' } else { '?' };
    Some(format!("{url}{first}migrate=off"))
}

/// Returns the first line of a file that has a secret; `what` says which.
pub(crate) fn first_line(path: &Path, what: &'static str) -> Result<String, Failure> {
    let shown = || {
        let path = path.to_string_lossy();
        // The URL itself may have been given.
        without_urls(&path, [path.clone().into_owned()])
    };
    let text = fs::read_to_string(path).map_err(|cause| Failure::File { what, path: shown(), cause })?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(Failure::Usage(format!("the first line of the {what}'s file is empty")));
    }
    // A store that is away is asked again, and the file read again.
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if !IS_TOLD.swap(true, Ordering::Relaxed)
        && fs::metadata(path).is_ok_and(|file| file.is_file() && file.mode() & OTHERS_READ != 0)
    {
        message(format_args!("every user of this machine may read the file of the {what}, {:?}", shown()));
    }
    Ok(line.to_owned())
}

/// Returns a text without the URLs that stand in these arguments: an argument in the wrong place is
/// repeated by the parser's errors.
pub(crate) fn without_urls(text: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let mut text = text.to_owned();
    for argument in arguments {
        let Some(at) = argument.find("://") else { continue };
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let start = argument[..at]
            .rfind(|c| !is_of_scheme(c))
            .map_or(0, |before| before + argument[before..].chars().next().map_or(1, char::len_utf8));
        text = text.replace(&argument[start..], &format!("{}://…", &argument[start..at]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_that_of_the_url() {
        for (url, namespace) in [
            ("redis://h/?namespace=shop", "shop"),
            ("postgres://h/db?schema=namespace&namespace=shop&mutex=lease", "shop"),
            ("redis://h/", "stanchion"),
            ("redis://h/?a=b", "stanchion"),
        ] {
            assert_eq!(namespace_of(url), namespace, "{url}");
        }
    }

    #[test]
    fn who_only_looks_migrates_nothing_unless_the_url_says_so() {
        for (url, opened) in [
            ("postgres://h", Some("postgres://h?migrate=off")),
            ("POSTGRESQL://u:p@h,i/db?schema=a", Some("POSTGRESQL://u:p@h,i/db?schema=a&migrate=off")),
            ("postgres://h/?schema=migrate", Some("postgres://h/?schema=migrate&migrate=off")),
            ("postgres://h/?migrate=on", None),
            ("postgres://h/?schema=a&migrate=off", None),
            ("redis://h/", None),
            ("postgres:", None),
        ] {
            assert_eq!(without_migration(url).as_deref(), opened, "{url}");
        }
    }

    #[test]
    fn a_text_shows_no_url_of_an_argument() {
        for argument in ["redis://:s3cret@h/", "--ulr=redis://:s3cret@h/?a b", "é=redis+cluster://u:s3cret@h"]
        {
            let text = format!("error: unexpected argument '{argument}' found");
            let shown = without_urls(&text, ["run".to_owned(), argument.to_owned()]);
            assert!(!shown.contains("s3cret") && shown.ends_with("://…' found"), "{shown}");
        }
        assert_eq!(without_urls("a ://b", ["c".to_owned()]), "a ://b");
    }
}
