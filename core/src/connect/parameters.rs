//! Takes our own parameters off a URL, before a client library sees it. The same mistake gives the
//! same text on every store ([C21](crate::contract#c21)).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::UrlParts;
use crate::{Error, Result};

/// For authors of stores: the parameters of a URL. Each is taken by its key; what is left at the
/// [`end`](Self::end) is unknown.
///
/// # Examples
/// ```
/// use stanchion_core::connect::{UrlParameters, UrlParts};
///
/// # fn run() -> stanchion_core::Result<()> {
/// let url = UrlParts::read("any://host/?replicas=2&fsync=on", "Any", &["any"])?;
/// let mut parameters = UrlParameters::new(&url, [("replicas", "2"), ("fsync", "on")]);
/// assert_eq!(parameters.number("replicas")?, Some(2));
/// assert_eq!(parameters.switch("fsync")?, Some(true));
/// assert_eq!(parameters.text("client_name")?, None);
/// parameters.end()
/// # }
/// # run().unwrap();
/// ```
pub struct UrlParameters {
    scheme: String,
    query: String,
    pairs: Vec<(String, String)>,
}

impl UrlParameters {
    /// Makes the parameters of a URL of its decoded keys and values.
    pub fn new<K: Into<String>, V: Into<String>>(
        url: &UrlParts<'_>,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { scheme: url.scheme.clone(), query: url.query.to_owned(), pairs }
    }

    /// Takes the value of a key.
    ///
    /// # Errors
    /// `InvalidArgument` if it is given twice.
    pub fn text(&mut self, key: &str) -> Result<Option<String>> {
        Ok(self.take_all(|other| other == key, |_| false)?.pop().map(|(_, value)| value))
    }

    /// Takes a whole number.
    ///
    /// # Errors
    /// `InvalidArgument` if it is none, or is given twice.
    pub fn number<T: FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        let malformed = |_| Error::invalid_argument(format!("{key} is a whole number"));
        self.text(key)?.map(|value| value.parse().map_err(malformed)).transpose()
    }

    /// Takes a number of milliseconds.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub fn milliseconds(&mut self, key: &str) -> Result<Option<Duration>> {
        Ok(self.number(key)?.map(Duration::from_millis))
    }

    /// Takes one of a few words.
    ///
    /// # Errors
    /// `InvalidArgument` naming the words if it is none of them, or if it is given twice.
    pub fn one_of<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let chosen = |value: String| {
            let choice = choices.iter().find(|(name, _)| *name == value).map(|(_, choice)| *choice);
            choice.ok_or_else(|| {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                Error::invalid_argument(format!("{key} is one of {}", names.join(", ")))
            })
        };
        self.text(key)?.map(chosen).transpose()
    }

    /// Takes `on` or `off`.
    ///
    /// # Errors
    /// As [`one_of`](Self::one_of).
    pub fn switch(&mut self, key: &str) -> Result<Option<bool>> {
        self.one_of(key, &[("on", true), ("off", false)])
    }

    /// Takes the parameters that are for the client library, in their order.
    ///
    /// # Errors
    /// `InvalidArgument` if one is given twice that may not be repeated.
    pub fn take_all(
        &mut self,
        is_wanted: impl Fn(&str) -> bool,
        may_repeat: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>> {
        let (taken, left) = std::mem::take(&mut self.pairs).into_iter().partition(|(key, _)| is_wanted(key));
        self.pairs = left;
        let taken: Vec<(String, String)> = taken;
        for (index, (key, _)) in taken.iter().enumerate() {
            if !may_repeat(key) && taken[..index].iter().any(|(earlier, _)| earlier == key) {
                let key = Error::shown(key);
                return Err(Error::invalid_argument(format!("URL parameter {key} is given twice")));
            }
        }
        Ok(taken)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `InvalidArgument` if a parameter is left.
    pub fn end(self) -> Result<()> {
        match self.pairs.first() {
            Some((key, _)) => Err(Error::unknown_parameter(&self.scheme, key, &self.query)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for UrlParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlParameters").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&'static str, &'static str)]) -> UrlParameters {
        let url = UrlParts::read("any://h/?x", "Any", &["any"]).unwrap();
        UrlParameters::new(&url, pairs.iter().copied())
    }

    #[test]
    fn c21_what_is_wrong_with_a_parameter_is_told() {
        let told = |error: Option<Error>| error.map(|error| error.to_string()).unwrap_or_default();
        let mut given = parameters(&[("a", "1"), ("b", "soon"), ("a", "2"), ("c", "yes"), ("d", "x")]);
        assert!(told(given.text("a").err()).ends_with("URL parameter \"a\" is given twice"));
        assert!(told(given.milliseconds("b").err()).ends_with("b is a whole number"));
        assert!(told(given.switch("c").err()).ends_with("c is one of on, off"));
        assert!(told(given.end().err()).ends_with("unknown URL parameter \"d\" of any://"));
    }

    #[test]
    fn those_of_a_client_keep_their_order() {
        let pairs = [("o", "2"), ("mine", "1"), ("o", "1"), ("h", "x")];
        let mut given = parameters(&pairs);
        let clients = given.take_all(|key| key != "mine", |key| key == "o").unwrap();
        let values: Vec<_> = clients.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!((values, given.number::<u8>("mine").unwrap()), (vec!["2", "1", "x"], Some(1)));
        given.end().unwrap();
        assert!(parameters(&pairs).take_all(|_| true, |_| false).is_err());
    }
}
