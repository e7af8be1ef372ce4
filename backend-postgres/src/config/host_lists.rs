//! The hosts of a URL that stand in its parameters, as lists.

use stanchion_core::{Error, Result};
use url::Url;

use crate::address::unbracketed;

/// The parameters that may be lists, one entry for each host.
const LISTS: [&str; 3] = ["host", "hostaddr", "port"];

/// The client's parameters, for each host of a URL.
pub(super) struct HostLists<'a> {
    client: &'a [(String, String)],
    /// Number of hosts.
    pub(super) hosts: usize,
    /// Whether parameters name the hosts, and not the URL before them.
    are_named: bool,
}

impl<'a> HostLists<'a> {
    /// Reads the lists of the client's parameters. `in_authority` is the number of hosts before the
    /// path.
    ///
    /// # Errors
    /// `InvalidArgument` for lists that do not fit each other.
    pub(super) fn of(in_authority: usize, client: &'a [(String, String)]) -> Result<Self> {
        let refused = |detail: &'static str| Err(Error::invalid_argument(detail));
        let list = |key: &str| client.iter().find(|(known, _)| known == key).map(|(_, list)| list);
        let length = |key: &str| list(key).map(|list| list.split(',').count());
        let named = length("host").max(length("hostaddr"));
        if in_authority > 1 && named.is_some() {
            return refused("the hosts stand before the path of the URL or in its parameters, not in both");
        }
        let hosts = named.unwrap_or(in_authority);
        if LISTS.iter().filter_map(|key| length(key)).any(|length| length != 1 && length != hosts) {
            return refused(
                "a list of host, hostaddr or port has as many entries as there are hosts, or one",
            );
        }
        let has_gap = |key: &&str| list(key).is_some_and(|list| list.split(',').any(str::is_empty));
        if hosts > 1 && LISTS.iter().any(has_gap) {
            return refused("a list of host, hostaddr or port has an empty entry");
        }
        Ok(Self { client, hosts, are_named: named.is_some() })
    }

    /// Returns the client's parameters of one host, whose URL is `url`.
    pub(super) fn parameters(&self, url: &Url, index: usize) -> Vec<(String, String)> {
        let of_host = |(key, value): &(String, String)| {
            let is_list = LISTS.contains(&key.as_str()) && value.contains(',');
            let value = if is_list { value.split(',').nth(index).unwrap_or_default() } else { value };
            let value = if LISTS.contains(&key.as_str()) { unbracketed(value) } else { value };
            (key.clone(), value.to_owned())
        };
        let mut client: Vec<_> = self.client.iter().map(of_host).collect();
        // The client library takes the brackets of an IPv6 address for a part of the name.
        let host = url.host_str().unwrap_or_default();
        if !self.are_named && unbracketed(host) != host {
            client.push(("host".to_owned(), unbracketed(host).to_owned()));
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::ErrorKind;

    use super::super::url::parse;
    use crate::PostgresBuilder;
    use crate::address::address;

    /// Returns the addresses of a URL.
    fn addresses(url: &str) -> Vec<String> {
        parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).0.iter().map(address).collect()
    }

    #[test]
    fn a_url_has_several_hosts() {
        for (url, expected) in [
            ("postgres://h1:6000,h2:6001/db", &["h1:6000", "h2:6001"][..]),
            ("postgres://u:p%2Cw@h1:6000,h2:6001,h3:6002", &["h1:6000", "h2:6001", "h3:6002"]),
            ("postgres://u:a,b@h1:6000,h2:6001/", &["h1:6000", "h2:6001"]),
            ("postgresql://[::1]:6000,[fd00::2]:6001/", &["[::1]:6000", "[fd00::2]:6001"]),
            ("postgres://[::1]:6000/", &["[::1]:6000"]),
            ("postgres://127.0.0.1:6000,h2:6001?namespace=x", &["127.0.0.1:6000", "h2:6001"]),
            ("postgres://%2Frun%2Fa,h2:6001/", &["/run/a", "h2:6001"]),
            ("postgres:///db?host=h1,h2&port=6000,6001", &["h1:6000", "h2:6001"]),
            ("postgres:///db?host=h1,h2&port=6000", &["h1:6000", "h2:6000"]),
            ("postgres:///db?host=[::1],/run/a&port=6000", &["[::1]:6000", "/run/a"]),
            ("postgres:///db?hostaddr=10.0.0.1,::1&port=6000,6001", &["10.0.0.1:6000", "[::1]:6001"]),
            ("postgres://h1,h2/?port=6000,6001", &["h1:6000", "h2:6001"]),
            ("postgres://h0/?host=h1,h2&port=6000", &["h1:6000", "h2:6000"]),
        ] {
            assert_eq!(addresses(url), expected, "{url}");
        }
        let (options, _) = parse("postgres://me:s%20cret@h1,h2/db?application_name=app").unwrap();
        for options in options {
            assert_eq!((options.get_username(), options.get_database()), ("me", Some("db")));
            assert_eq!(options.get_application_name(), Some("app"));
        }
    }

    #[test]
    fn c19_hosts_that_are_not_understood_are_refused() {
        let many = format!("postgres://{}h/", "h,".repeat(16));
        for url in [
            "postgres://h1,/db",
            "postgres://,h2/db",
            "postgres://h1,,h2/db",
            "postgres://h1:x,h2/db",
            "postgres://h1,h2:70000/db",
            "postgres://h1,::1/db",
            "postgres://h1,[::1/db",
            "postgres://u@:6000,h2/db",
            "postgres://h1,h2/?host=h3,h4",
            "postgres://h1,h2/?port=1,2,3",
            "postgres://h1/?port=1,2",
            "postgres:///?host=h1,h2&port=1,2,3",
            "postgres:///?host=h1,h2&port=1,x",
            "postgres:///?host=h1,,h2",
            "postgres:///?host=h1,h2&hostaddr=::1,::1,::1",
            "postgres:///?hostaddr=h1,h2",
            "postgres://h1,h2/?target_session_attrs=standby",
            "postgres://h1,h2/?target_session_attrs=",
            "postgres://h1,h2/?target_session_attrs=any&target_session_attrs=any",
            &many,
        ] {
            let kind = PostgresBuilder::new(url).err().map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::InvalidArgument), "{url}");
        }
        let error = PostgresBuilder::new("postgres://h/?target_session_attrs=x").unwrap_err();
        assert!(error.to_string().contains("any, read-write"), "{error}");
    }

    #[test]
    fn several_hosts_must_take_writes_unless_the_url_says_otherwise() {
        for (url, must_take_writes) in [
            ("postgres://h1/", false),
            ("postgres://h1,h2/", true),
            ("postgres://h1/?target_session_attrs=read-write", true),
            ("postgres://h1,h2/?target_session_attrs=any", false),
        ] {
            let connector = PostgresBuilder::new(url).unwrap().connector;
            assert_eq!(connector.must_take_writes(), must_take_writes, "{url}");
        }
    }
}
