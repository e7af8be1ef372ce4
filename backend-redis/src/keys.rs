//! Names of the keys that hold the state of an object.
//!
//! All keys of an object, the mailboxes of its waiters and their liveness have one hash tag
//! `{namespace/stripe}`, and so one slot. The purpose of a key stands before the name, so that no
//! name can be made to look like another key.

use redis::{Cmd, RedisWrite};
use stanchion_core::engine::check_namespace;
use stanchion_core::spi::{Object, ProcessId};
use stanchion_core::{Kind, Name, Result, Ticket};
use xxhash_rust::xxh3::xxh3_64;

/// Number of hash tags that the objects are spread over.
pub(crate) const STRIPES: usize = 16;
/// The layout of keys and values this version writes.
pub(crate) const LAYOUT: &str = "6";

/// The keys of a namespace.
#[derive(Debug)]
pub(crate) struct Keyspace {
    namespace: String,
    stripes: Vec<Stripe>,
}

#[derive(Debug)]
struct Stripe {
    tag: String,
    live: String,
    grace: String,
    mark: String,
}

impl Keyspace {
    /// # Errors
    /// `InvalidArgument` unless the namespace is 1 to 64 of `A-Z a-z 0-9 _ . -`.
    pub(crate) fn new(namespace: &str) -> Result<Self> {
        check_namespace(namespace)?;
        let stripes = (0..STRIPES)
            .map(|stripe| {
                let tag = format!("{{{namespace}/{stripe}}}:");
                Stripe {
                    live: format!("{tag}live"),
                    grace: format!("{tag}grace"),
                    mark: format!("{tag}mark"),
                    tag,
                }
            })
            .collect();
        Ok(Self { namespace: namespace.to_owned(), stripes })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the key of the layout version of the namespace.
    pub(crate) fn layout(&self) -> String {
        format!("{{{}/0}}:layout", self.namespace)
    }

    /// Returns the key of the largest token of a stripe.
    pub(crate) fn mark(&self, stripe: usize) -> &str {
        &self.stripes[stripe].mark
    }

    /// Returns the key of the waiting processes of a stripe.
    pub(crate) fn live(&self, stripe: usize) -> &str {
        &self.stripes[stripe].live
    }

    /// Returns the keys of an object in the order of the scripts: six, for a wait group seven, for
    /// a limiter three.
    pub(crate) fn object(&self, object: &Object) -> Vec<String> {
        let (stripe, kind) = (self.stripe(object), object.kind.letter());
        let key = |part: &str| format!("{}{kind}{part}{}", stripe.tag, object.name);
        if object.kind == Kind::Limiter {
            return vec![key(":"), key("r:"), key("z:")];
        }
        let Stripe { live, grace, mark, .. } = stripe;
        let mut keys = vec![key(":"), key("e:"), key("q:"), live.clone(), grace.clone(), mark.clone()];
        if object.kind == Kind::WaitGroup {
            keys.push(key("v:"));
        }
        keys
    }

    /// Returns the keys of a Bloom filter: its record, then its pages.
    #[cfg(feature = "bloom")]
    pub(crate) fn filter(&self, object: &Object, pages: &[u64]) -> Vec<String> {
        let (tag, kind) = (&self.stripe(object).tag, object.kind.letter());
        let pages = pages.iter().map(|page| format!("{tag}{kind}{page}:{}", object.name));
        std::iter::once(self.record(object)).chain(pages).collect()
    }

    /// Returns the key of a piece of a Bloom filter while the piece is merged.
    #[cfg(feature = "bloom")]
    pub(crate) fn piece(&self, object: &Object) -> String {
        format!("{}{}t:{}", self.stripe(object).tag, object.kind.letter(), object.name)
    }

    /// Returns the key of an object's record.
    pub(crate) fn record(&self, object: &Object) -> String {
        format!("{}{}:{}", self.stripe(object).tag, object.kind.letter(), object.name)
    }

    /// Adds the key of an object's record to a command.
    pub(crate) fn add_record(&self, object: &Object, command: &mut Cmd) {
        let tag = &self.stripe(object).tag;
        command.write_arg_fmt(format_args!("{tag}{}:{}", object.kind.letter(), object.name));
    }

    /// Returns the keys of a stripe with which a cluster executes a listing only where all keys of
    /// the stripe are on one node: one that may be there, and one that never is.
    pub(crate) fn whole_stripe(&self, stripe: usize) -> [String; 2] {
        let Stripe { mark, tag, .. } = &self.stripes[stripe];
        [mark.clone(), format!("{tag}none")]
    }

    /// Returns the pattern of the records' keys of names that begin with a text: of one stripe or
    /// of all, of one kind or of all. It may match other names, too.
    pub(crate) fn pattern(&self, stripe: Option<usize>, kind: Option<Kind>, prefix: &str) -> String {
        let stripe = stripe.map_or_else(|| "*".to_owned(), |stripe| stripe.to_string());
        let kind = kind.map_or_else(|| "[mswlb]".to_owned(), |kind| kind.letter().to_string());
        // Nothing in a namespace has a meaning in a pattern.
        let mut pattern = format!("{{{}/{stripe}}}:{kind}:", self.namespace);
        // With a brace in it, the server would compare the prefix at each brace of a name, for a
        // time that grows with the square of the name's length.
        let prefix = prefix.split_once('}').map_or(prefix, |(before, _)| before);
        for letter in prefix.chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern.push('*');
        pattern
    }

    /// Returns the object whose record has this key; `None` for any other key.
    pub(crate) fn object_of(&self, key: &str) -> Option<Object> {
        let rest = key.strip_prefix('{')?.strip_prefix(self.namespace.as_str())?.strip_prefix('/')?;
        let (stripe, rest) = rest.split_once("}:")?;
        let (letter, name) = rest.split_once(':')?;
        let object = Object { kind: Kind::of_letter(letter)?, name: Name::new(name).ok()? };
        (stripe == stripe_of(&object).to_string()).then_some(object)
    }

    /// Returns the hash tag of a stripe, without its braces.
    pub(crate) fn tag(&self, stripe: usize) -> String {
        format!("{}/{stripe}", self.namespace)
    }

    /// Returns the mailboxes of a process, one for each stripe.
    pub(crate) fn boxes(&self, process: ProcessId) -> Vec<String> {
        self.stripes.iter().map(|stripe| format!("{}box:{process}", stripe.tag)).collect()
    }

    fn stripe(&self, object: &Object) -> &Stripe {
        &self.stripes[stripe_of(object)]
    }
}

/// Returns the stripe of an object.
pub(crate) fn stripe_of(object: &Object) -> usize {
    let (mut bytes, name) = ([0; 4 + Name::MAX_BYTES], object.name.as_str().as_bytes());
    let start = object.kind.letter().encode_utf8(&mut bytes).len();
    bytes[start..start + name.len()].copy_from_slice(name);
    // The remainder is below 16.
    usize::try_from(xxh3_64(&bytes[..start + name.len()]) % STRIPES as u64).unwrap_or_default()
}

/// Returns the digits of a ticket, as its text has them.
pub(crate) fn digits(ticket: Ticket) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(ticket.as_u128().to_be_bytes()) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(kind: Kind, name: &str) -> Vec<String> {
        let object = Object { kind, name: Name::new(name).unwrap() };
        Keyspace::new("ns").unwrap().object(&object)
    }

    #[test]
    fn c19_the_keys_of_a_name_do_not_change_between_versions() {
        let expected = ["m:a", "me:a", "mq:a", "live", "grace", "mark"];
        assert_eq!(keys(Kind::Mutex, "a"), expected.map(|key| format!("{{ns/12}}:{key}")));
        assert_eq!(keys(Kind::Semaphore, "a")[0].split(':').skip(1).collect::<Vec<_>>(), ["s", "a"]);
        let group = keys(Kind::WaitGroup, "a");
        let stripe = group[3].strip_suffix("live").unwrap();
        let expected = ["w:a", "we:a", "wq:a", "live", "grace", "mark", "wv:a"];
        assert_eq!(group, expected.map(|key| format!("{stripe}{key}")));
        assert_eq!(keys(Kind::Limiter, "a"), ["{ns/1}:l:a", "{ns/1}:lr:a", "{ns/1}:lz:a"]);
    }

    #[cfg(feature = "bloom")]
    fn filter(name: &str) -> Vec<String> {
        let object = Object { kind: Kind::BloomFilter, name: Name::new(name).unwrap() };
        let keyspace = Keyspace::new("ns").unwrap();
        let mut keys = keyspace.filter(&object, &[0, 12]);
        keys.push(keyspace.piece(&object));
        keys
    }

    #[cfg(feature = "bloom")]
    #[test]
    fn c19_the_keys_of_a_filter_do_not_change_between_versions() {
        assert_eq!(filter("a"), ["{ns/4}:b:a", "{ns/4}:b0:a", "{ns/4}:b12:a", "{ns/4}:bt:a"]);
    }

    #[test]
    fn c19_names_that_look_like_keys_do_not_alias() {
        let mut all = Vec::new();
        for name in [
            "a", "e:a", "q:a", "v:a", "r:a", "z:a", "0:a", "t:a", ":a", "me:a", "}:m:a", "live", "mark",
            "box:x",
        ] {
            for kind in [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter] {
                let keys = keys(kind, name).into_iter();
                let own =
                    keys.filter(|key| ![":live", ":grace", ":mark"].iter().any(|end| key.ends_with(end)));
                all.extend(own.map(|key| key.split_once(':').unwrap().1.to_owned()));
            }
            #[cfg(feature = "bloom")]
            all.extend(filter(name).iter().map(|key| key.split_once(':').unwrap().1.to_owned()));
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn c19_the_object_of_a_record_is_found_again() {
        let keyspace = Keyspace::new("ns").unwrap();
        for name in ["a", ":", "}:m:a", "{ns/1}:m:a", "\u{1b}", "e:a", "é"] {
            for &kind in Kind::ALL {
                let object = Object { kind, name: Name::new(name).unwrap() };
                assert_eq!(keyspace.object_of(&keyspace.record(&object)), Some(object));
            }
        }
        for other in [
            "",
            "ns",
            "{ns/12}:m:",
            "{ns/11}:m:a",
            "{ns/012}:m:a",
            "{nsx/12}:m:a",
            "{ns/12}:me:a",
            "{ns/12}:live",
        ] {
            assert_eq!(keyspace.object_of(other), None, "{other}");
        }
    }

    #[test]
    fn c19_the_characters_of_a_prefix_are_no_pattern() {
        let keyspace = Keyspace::new("n.s").unwrap();
        assert_eq!(keyspace.pattern(None, None, ""), "{n.s/*}:[mswlb]:*");
        let pattern = keyspace.pattern(Some(3), Some(Kind::Limiter), r"a*?[b]\^-");
        assert_eq!(pattern, r"{n.s/3}:l:a\*\?\[b\]\\^-*");
        assert_eq!(keyspace.pattern(None, Some(Kind::Mutex), "a}:m:b"), "{n.s/*}:m:a*");
    }

    #[test]
    fn the_digits_of_a_ticket_are_its_text() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210] {
            let ticket = Ticket::from(bits);
            assert_eq!(digits(ticket), ticket.to_string().as_bytes());
        }
    }

    #[test]
    fn c19_namespaces_are_checked() {
        for bad in ["", "a b", "a/b", "{a}", "ü", &"a".repeat(65)] {
            assert!(Keyspace::new(bad).is_err(), "{bad:?}");
        }
        assert!(Keyspace::new("Az09_.-").is_ok());
    }
}
