//! `key=value` fields of a line: writing, escaping, reading.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::str::FromStr;

/// A line under construction.
pub(super) struct Line(String);

impl Line {
    pub(super) fn new(version: &str) -> Self {
        Self(version.to_owned())
    }

    pub(super) fn add(&mut self, key: &str, value: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {key}={value}");
        self
    }

    pub(super) fn maybe(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            self.add(key, value);
        }
        self
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// The fields of a line in the order in which they were written; each can be taken once.
pub(super) struct Fields<'l> {
    rest: Vec<(&'l str, &'l str)>,
}

impl<'l> Fields<'l> {
    /// Parses a line without its version.
    pub(super) fn parse(line: &'l str) -> Result<Self, String> {
        let pairs = line.split(' ').map(|field| {
            field.split_once('=').ok_or_else(|| format!("{field:?} is not of the form key=value"))
        });
        Ok(Self { rest: pairs.collect::<Result<_, _>>()? })
    }

    pub(super) fn text(&mut self, key: &str) -> Result<&'l str, String> {
        self.text_or_none(key).ok_or_else(|| format!("there is no field `{key}`"))
    }

    pub(super) fn text_or_none(&mut self, key: &str) -> Option<&'l str> {
        let at = self.rest.iter().position(|(found, _)| *found == key)?;
        Some(self.rest.remove(at).1)
    }

    pub(super) fn get<T: FromStr>(&mut self, key: &str) -> Result<T, String> {
        value(key, self.text(key)?)
    }

    pub(super) fn maybe<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        self.text_or_none(key).map(|text| value(key, text)).transpose()
    }

    /// Refuses the line if it has a field that was not read.
    pub(super) fn end(self) -> Result<(), String> {
        match self.rest.first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("the field `{key}` is not known here")),
        }
    }
}

fn value<T: FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a value of `{key}`"))
}

/// Escapes text into one word: space, `%` and control characters become `%` and two hexadecimal
/// digits.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    let plain = |c: char| !(c.is_ascii_control() || c == ' ' || c == '%');
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if plain(c) {
            escaped.push(c);
        } else {
            let _ = write!(escaped, "%{:02x}", u32::from(c));
        }
    }
    Cow::Owned(escaped)
}

pub(super) fn unescaped(text: &str) -> Result<Cow<'_, str>, String> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii);
        let Some(code) = code else { return Err(format!("{text:?} has a broken escape")) };
        plain.push(char::from(code));
        plain.push_str(&part[2..]);
    }
    Ok(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["plain", "", "a b", "100%", "%20", "line\nbreak\tand\u{7f}", "ä={}:\"'🔒", "\u{2028}"]
        {
            let word = escaped(text);
            assert!(!word.contains([' ', '\n', '\t']), "{word}");
            assert_eq!(unescaped(&word).unwrap(), text);
        }
        assert!(unescaped("%2").is_err());
        assert!(unescaped("%+1x").is_err());
        assert!(unescaped("%ff").is_err());
        assert!(unescaped("%ä").is_err());
    }
}
