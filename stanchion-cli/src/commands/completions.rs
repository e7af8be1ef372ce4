//! `completions`: a script with which a shell completes commands.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::cli::Cli;
use crate::exit::{Exit, Failure};
use crate::output;

/// Behind `--` stands another command, which bash completes as if it stood alone: by the functions
/// of the package bash-completion where they are there, else by the names of programs and files.
const BASH_BEHIND_DASHES: &str = r#"
_stanchion_or_command() {
    local at
    for ((at = 1; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]} == -- ]] || continue
        if declare -F _comp_command_offset >/dev/null; then
            _comp_command_offset $((at + 1))
        elif declare -F _command_offset >/dev/null; then
            _command_offset $((at + 1))
        elif ((COMP_CWORD == at + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        fi
        return
    done
    _stanchion "$@"
}
complete -F _stanchion_or_command -o nosort -o bashdefault -o default stanchion
"#;

/// Print the completions for a shell
#[derive(Args, Clone, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(options: &Completions) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    generate(options.shell, &mut Cli::command(), "stanchion", &mut text);
    if options.shell == Shell::Bash {
        text.extend_from_slice(BASH_BEHIND_DASHES.as_bytes());
    }
    output::raw(&text)?;
    Ok(Exit::DONE)
}
