//! The scripts. They are called by their hash; the text is sent only to a server that does not know
//! it.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use redis::Cmd;

macro_rules! script {
    ($step:literal) => {
        Script::new(concat!(
            include_str!("lua/common.lua"),
            include_str!("lua/permits.lua"),
            include_str!("lua/places.lua"),
            include_str!("lua/shared.lua"),
            include_str!("lua/forms.lua"),
            include_str!("lua/queue.lua"),
            include_str!("lua/batch.lua"),
            include_str!("lua/group.lua"),
            include_str!(concat!("lua/", $step, ".lua"))
        ))
    };
    (alone $($step:literal)+) => {
        Script::new(concat!($(include_str!(concat!("lua/", $step, ".lua"))),+))
    };
}

macro_rules! limit_script {
    ($step:literal) => {
        Script::new(concat!(
            include_str!("lua/common.lua"),
            include_str!("lua/limit_shared.lua"),
            include_str!(concat!("lua/limit_", $step, ".lua"))
        ))
    };
}

#[cfg(feature = "bloom")]
macro_rules! bloom_script {
    ($step:literal) => {
        Script::new(concat!(
            include_str!("lua/common.lua"),
            include_str!("lua/bloom_shared.lua"),
            include_str!(concat!("lua/bloom_", $step, ".lua"))
        ))
    };
}

/// The room that is made for a call: enough for a few entries.
const USUAL_ARGUMENTS: usize = 32;
const USUAL_BYTES: usize = 1_024;

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: String,
    /// Whether its arguments or answers may be some 100 kB.
    pub(crate) is_large: bool,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        let hash = redis::Script::new(text).get_hash().to_owned();
        Self { text, hash, is_large: false }
    }

    fn large(self) -> Self {
        Self { is_large: true, ..self }
    }

    /// Returns the commands that its text calls.
    pub(crate) fn commands(&self) -> BTreeSet<&'static str> {
        let calls = self.text.split("call('").skip(1);
        calls.filter_map(|call| call.split('\'').next()).collect()
    }

    /// Number of words before the keys and arguments of a call.
    pub(crate) const START: usize = 2;

    /// Returns the start of the command that calls the script by its hash.
    pub(crate) fn by_hash(&self) -> Cmd {
        let mut command = Cmd::with_capacity(USUAL_ARGUMENTS, USUAL_BYTES);
        command.arg("EVALSHA").arg(&self.hash);
        command
    }

    /// Returns the start of the command that calls the script with its text.
    pub(crate) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.text);
        command
    }
}

#[cfg(test)]
impl Script {
    /// Returns the script with a count of what it does: at its end it pushes its name, the number
    /// of commands that it has called, and of the elements that it was given, to a list.
    fn counted(&self, name: &str, list: &str) -> Self {
        let text = include_str!("steps/scans/counted.lua")
            .replace("NAME", name)
            .replace("LIST", list)
            .replace("-- SCRIPT", self.text);
        Self::new(text.leak())
    }
}

/// The scripts of a store.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) fast_path: Script,
    pub(crate) fast_renew: Script,
    pub(crate) fast_permits: Script,
    pub(crate) acquire: Script,
    pub(crate) renew: Script,
    pub(crate) release: Script,
    pub(crate) put_back: Script,
    pub(crate) cancel: Script,
    pub(crate) poll: Script,
    pub(crate) keep_places: Script,
    pub(crate) attach: Script,
    pub(crate) inspect: Script,
    pub(crate) resize: Script,
    pub(crate) force: Script,
    pub(crate) look: Script,
    pub(crate) split: Script,
    pub(crate) limit_decide: Script,
    pub(crate) limit_refund: Script,
    pub(crate) limit_set_quota: Script,
    pub(crate) limit_reset: Script,
    pub(crate) list: Script,
    pub(crate) rights: Script,
    #[cfg(feature = "bloom")]
    pub(crate) bloom: BloomScripts,
}

/// The scripts of Bloom filters.
#[cfg(feature = "bloom")]
#[derive(Debug)]
pub(crate) struct BloomScripts {
    pub(crate) probe: Script,
    pub(crate) begin: Script,
    pub(crate) merge: Script,
    pub(crate) read: Script,
    pub(crate) survey: Script,
    pub(crate) clear: Script,
}

impl Scripts {
    /// Returns those of this process: their texts and hashes are the same for all stores.
    pub(crate) fn shared() -> Arc<Self> {
        static SCRIPTS: LazyLock<Arc<Scripts>> = LazyLock::new(|| Arc::new(Scripts::new()));
        Arc::clone(&SCRIPTS)
    }

    /// Makes those that count what they do; see [`Script::counted`].
    #[cfg(test)]
    pub(crate) fn counted(list: &str) -> Self {
        let mut all = Self::new();
        macro_rules! count {
            ($scripts:expr, $($script:ident)+) => {
                $($scripts.$script = $scripts.$script.counted(stringify!($script), list);)+
            };
        }
        count!(all, fast_path fast_renew fast_permits acquire renew release put_back cancel poll keep_places attach);
        count!(all, inspect resize force look split limit_decide limit_refund limit_set_quota limit_reset list);
        #[cfg(feature = "bloom")]
        count!(all.bloom, probe begin merge read survey clear);
        all
    }

    pub(crate) fn new() -> Self {
        Self {
            fast_path: script!(alone "fast_path"),
            fast_renew: script!(alone "fast_renew"),
            fast_permits: script!(alone "permits" "fast_permits"),
            acquire: script!("acquire"),
            renew: script!("renew"),
            release: script!("release"),
            put_back: script!("put_back"),
            cancel: script!("cancel"),
            poll: script!("poll"),
            keep_places: script!(alone "keep_places"),
            attach: script!("attach"),
            inspect: script!("inspect").large(),
            resize: script!("resize"),
            force: script!("force"),
            look: script!("look"),
            split: script!("split"),
            limit_decide: limit_script!("decide"),
            limit_refund: limit_script!("refund"),
            limit_set_quota: limit_script!("set_quota"),
            limit_reset: limit_script!("reset"),
            list: script!(alone "common" "permits" "places" "list").large(),
            rights: script!(alone "rights"),
            #[cfg(feature = "bloom")]
            bloom: BloomScripts::new(),
        }
    }
}

#[cfg(feature = "bloom")]
impl BloomScripts {
    fn new() -> Self {
        Self {
            probe: bloom_script!("probe").large(),
            begin: bloom_script!("begin"),
            merge: bloom_script!("merge").large(),
            read: bloom_script!("read").large(),
            survey: bloom_script!("survey"),
            clear: bloom_script!("clear"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that are sent outside of scripts.
    const SENT: [&str; 9] = ["PING", "INFO", "EVALSHA", "EVAL", "BLPOP", "SETNX", "SET", "GET", "DEL"];

    /// The commands that the rule with this index in the manual grants.
    fn granted(index: usize) -> BTreeSet<String> {
        let manual = include_str!("../README.md");
        let rule = manual.lines().filter(|line| line.starts_with("ACL SETUSER")).nth(index).unwrap();
        rule.split(' ').filter_map(|word| word.strip_prefix('+')).map(str::to_uppercase).collect()
    }

    #[cfg(feature = "bloom")]
    #[test]
    fn the_rule_for_filters_grants_what_only_they_use() {
        let BloomScripts { probe, begin, merge, read, survey, clear } = BloomScripts::new();
        let scripts = [probe, begin, merge, read, survey, clear];
        let used: BTreeSet<_> = scripts.iter().flat_map(Script::commands).map(str::to_owned).collect();
        assert_eq!(granted(1), used.difference(&granted(0)).cloned().collect());
    }

    #[test]
    fn the_rule_for_listings_grants_what_only_they_use() {
        let used: BTreeSet<_> = Scripts::new().list.commands().into_iter().map(str::to_owned).collect();
        assert_eq!(granted(2), used.difference(&granted(0)).cloned().collect());
    }

    #[test]
    fn the_rule_in_the_manual_grants_what_is_used_and_nothing_else() {
        #[rustfmt::skip]
        let Scripts {
            fast_path, fast_renew, fast_permits, acquire, renew, release, put_back, cancel, poll, keep_places,
            attach, inspect, resize, force, look, split, rights, limit_decide, limit_refund, limit_set_quota,
            limit_reset, list: _, #[cfg(feature = "bloom")] bloom: _,
        } = Scripts::new();
        let fast = [fast_path, fast_renew, fast_permits];
        let permits = [acquire, renew, release, put_back, cancel, poll, keep_places, attach];
        let others = [inspect, resize, force, look, split, rights];
        let limits = [limit_decide, limit_refund, limit_set_quota, limit_reset];
        let scripts: Vec<_> = fast.into_iter().chain(permits).chain(others).chain(limits).collect();
        let used = scripts.iter().flat_map(Script::commands).chain(SENT).map(str::to_owned).collect();
        assert_eq!(granted(0), used);
    }
}
