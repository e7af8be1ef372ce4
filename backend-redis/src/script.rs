//! The scripts, by their hash; the text is sent only to a server that does not know it.

use redis::Cmd;

macro_rules! script {
    ($step:literal) => {
        Script::new(concat!(include_str!("lua/shared.lua"), include_str!(concat!("lua/", $step, ".lua"))))
    };
}

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: String,
    /// What it writes is not to be handed out before replicas have it, if the store asks for that.
    pub(crate) grants: bool,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned(), grants: false }
    }

    fn granting(self) -> Self {
        Self { grants: true, ..self }
    }

    /// The start of the command that calls the script by its hash.
    pub(crate) fn by_hash(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash);
        command
    }

    /// The start of the command that brings the text along.
    pub(crate) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.text);
        command
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) acquire: Script,
    pub(crate) renew: Script,
    pub(crate) release: Script,
    pub(crate) cancel: Script,
    pub(crate) poll: Script,
    pub(crate) attach: Script,
    pub(crate) inspect: Script,
    pub(crate) resize: Script,
    pub(crate) force: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            acquire: script!("acquire").granting(),
            renew: script!("renew"),
            release: script!("release"),
            cancel: script!("cancel"),
            poll: script!("poll"),
            attach: script!("attach").granting(),
            inspect: script!("inspect"),
            resize: script!("resize"),
            force: script!("force"),
        }
    }
}
