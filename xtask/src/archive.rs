//! `cargo xtask archive`: the program `stanchion` as an archive for one target, which `cargo
//! binstall` takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Outcome;
use crate::workspace::{cargo, root, target};

type Failed = Box<dyn std::error::Error>;

/// The name of the package, and of its folder.
const PACKAGE: &str = "stanchion-cli";
const PROGRAM: &str = "stanchion";
/// What is packed as it is in the package's folder.
const TEXTS: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// The shells, and where each looks for the completions of a program.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "stanchion.bash"), ("fish", "stanchion.fish"), ("zsh", "_stanchion")];

/// Builds the program for this machine, packs it, and compares the archive with what it is to
/// contain. Returns `true` if they agree.
pub(crate) fn run() -> Outcome {
    let status =
        cargo(&["build", "--locked", "--release", "--package", PACKAGE, "--bin", PROGRAM]).status()?;
    if !status.success() {
        return Err("the program could not be built".into());
    }
    let folder = target()?;
    let name = name(env!("CARGO_PKG_VERSION"), &host()?);
    let archive = pack(&folder.join("release").join(PROGRAM), &folder.join("archive"), &name)?;
    println!("{}", archive.display());
    Ok(missing(&archive, &name)?.iter().inspect(|file| println!("problem: the archive lacks {file}")).count()
        == 0)
}

/// Returns the name of the archive without its ending, which is that of the folder in it, too.
fn name(version: &str, target: &str) -> String {
    format!("{PACKAGE}-v{version}-{target}")
}

/// Returns the target that the compiler builds for if it is told no other.
fn host() -> Result<String, Failed> {
    let output = output(Command::new("rustc").arg("--version").arg("--verbose"))?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not tell its target".into())
}

/// Packs a program with its licences, manual and completions. Returns the path of the archive.
fn pack(program: &Path, folder: &Path, name: &str) -> Result<PathBuf, Failed> {
    let whole = folder.join(name);
    if whole.exists() {
        fs::remove_dir_all(&whole)?;
    }
    fs::create_dir_all(whole.join("man"))?;
    fs::create_dir_all(whole.join("completions"))?;
    // With its right to be run.
    fs::copy(program, whole.join(PROGRAM))?;
    for text in TEXTS {
        fs::copy(root().join(PACKAGE).join(text), whole.join(text))?;
    }
    fs::write(whole.join("man/stanchion.1"), output(Command::new(program).arg("man"))?)?;
    for subcommand in subcommands(program)? {
        let page = output(Command::new(program).args(["man", &subcommand]))?;
        fs::write(whole.join(format!("man/stanchion-{subcommand}.1")), page)?;
    }
    for (shell, file) in COMPLETIONS {
        let text = output(Command::new(program).args(["completions", shell]))?;
        fs::write(whole.join("completions").join(file), text)?;
    }
    let archive = folder.join(format!("{name}.tgz"));
    // The same files give the same archive, whoever packs them.
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
        "--create",
        "--gzip",
        "--file",
    ]);
    output(tar.arg(&archive).arg("--directory").arg(folder).arg(name))?;
    Ok(archive)
}

/// Returns the subcommands that the program's help lists.
fn subcommands(program: &Path) -> Result<Vec<String>, Failed> {
    let help = output(Command::new(program).arg("--help"))?;
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Its description may go on in lines that are indented further.
    let names =
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let names: Vec<_> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    if names.is_empty() { Err("the program's help lists no subcommand".into()) } else { Ok(names) }
}

/// Returns which files an archive lacks, or has without content.
fn missing(archive: &Path, name: &str) -> Result<Vec<String>, Failed> {
    let listing = output(Command::new("tar").args(["--list", "--verbose", "--gzip", "--file"]).arg(archive))?;
    let is_there = |file: &String| {
        let path = format!("{name}/{file}");
        listing.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_program = fields.first().is_some_and(|mode| mode.starts_with("-rwx"));
            fields.last() == Some(&&*path) && fields.get(2) != Some(&"0") && (is_program || file != PROGRAM)
        })
    };
    let pages = ["stanchion", "stanchion-run", "stanchion-check", "stanchion-schema"];
    let files = [PROGRAM].into_iter().chain(TEXTS).map(str::to_owned);
    let files = files.chain(pages.map(|page| format!("man/{page}.1")));
    let files = files.chain(COMPLETIONS.map(|(_, file)| format!("completions/{file}")));
    Ok(files.filter(|file| !is_there(file)).collect())
}

/// Returns what a program writes.
///
/// # Errors
/// If it cannot be started, or fails.
fn output(command: &mut Command) -> Result<String, Failed> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if !status.success() {
        let program = command.get_program().display();
        return Err(format!("{program}: {status}: {}", String::from_utf8_lossy(&stderr).trim()).into());
    }
    Ok(String::from_utf8(stdout)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// In the place of the program, whose build takes minutes.
    const STANDS_IN: &str = r#"#!/bin/sh
if [ "$1" = --help ]; then
    printf '%s\n' 'What it does' '' 'Commands:' '  run     Runs' '          and waits' '  check   Checks' \
        '  schema  Prints' '  help    Helps' '' 'Options:' '  -h'
else
    echo "$@"
fi
"#;

    #[test]
    fn an_archive_has_all_that_belongs_to_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, STANDS_IN).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(subcommands(&program).unwrap(), ["run", "check", "schema"]);
        let name = name("1.2.3", "x86_64-unknown-linux-gnu");
        for _ in 0..2 {
            let archive = pack(&program, folder.path(), &name).unwrap();
            assert_eq!(archive, folder.path().join("stanchion-cli-v1.2.3-x86_64-unknown-linux-gnu.tgz"));
            assert_eq!(missing(&archive, &name).unwrap(), [""; 0]);
        }
        let page = fs::read_to_string(folder.path().join(&name).join("man/stanchion-run.1")).unwrap();
        assert_eq!(page, "man run\n");

        let whole = folder.path().join(&name);
        fs::write(whole.join("completions/_stanchion"), "").unwrap();
        fs::remove_file(whole.join("LICENSE-MIT")).unwrap();
        fs::set_permissions(whole.join(PROGRAM), fs::Permissions::from_mode(0o644)).unwrap();
        let archive = folder.path().join("other.tgz");
        let mut tar = Command::new("tar");
        tar.args(["--create", "--gzip", "--file"]).arg(&archive).arg("--directory").arg(folder.path());
        output(tar.arg(&name)).unwrap();
        assert_eq!(missing(&archive, &name).unwrap(), [PROGRAM, "LICENSE-MIT", "completions/_stanchion"]);
    }

    #[test]
    fn binstall_looks_for_the_archive_that_is_made() {
        let manifest = fs::read_to_string(root().join(PACKAGE).join("Cargo.toml")).unwrap();
        let section = manifest.split("[package.metadata.binstall]\n").nth(1).unwrap();
        let value = |key: &str| {
            let line = section
                .lines()
                .take_while(|line| !line.starts_with('['))
                .find_map(|line| line.strip_prefix(key));
            let text = line.and_then(|line| line.strip_prefix(" = \"")?.strip_suffix('"')).unwrap();
            [("name", PACKAGE), ("version", "1.2.3"), ("target", "t"), ("bin", PROGRAM), ("binary-ext", "")]
                .iter()
                .fold(text.to_owned(), |text, (key, value)| text.replace(&format!("{{ {key} }}"), value))
        };
        let name = name("1.2.3", "t");
        assert_eq!(value("pkg-url"), format!("{{ repo }}/releases/download/v1.2.3/{name}.tgz"));
        assert_eq!(value("bin-dir"), format!("{name}/{PROGRAM}"));
        assert_eq!(value("pkg-fmt"), "tgz");
    }

    #[test]
    fn the_target_of_this_machine_is_known() {
        assert!(host().unwrap().contains("-linux-"));
    }
}
