//! The images: existing or pulled ones, or else ones made from Debian's packages.

use std::process::{Command, Stdio};

use stanchion_testbed::servers::install::Package;

use super::daemon::{Daemon, install, is_about_rights, one_line, room};

const IMAGE: &str = include_str!("image.sh");
const ENTRYPOINT: &str = include_str!("entrypoint.sh");
/// Time limit for pulling an image, in the form for `timeout`.
const PULL_LIMIT: &str = "60";

type Failed = Box<dyn std::error::Error>;

/// The image of a server's container.
struct Image {
    /// The environment variable that names it for the test servers.
    variable: &'static str,
    official: &'static str,
    ours: &'static str,
}

const IMAGES: [Image; 2] = [
    Image {
        variable: "STANCHION_TEST_REDIS_IMAGE",
        official: "redis:7.4",
        ours: "stanchion-test/redis:debian",
    },
    Image {
        variable: "STANCHION_TEST_POSTGRES_IMAGE",
        official: "postgres:17",
        ours: "stanchion-test/postgres:debian",
    },
];

/// One image for each server.
#[derive(Debug)]
pub(super) struct Images {
    made: bool,
}

impl Images {
    /// Takes the official images, or makes images if they are not available.
    pub(super) fn provide(daemon: &Daemon) -> Result<Self, Failed> {
        for image in IMAGES {
            if let Err(reason) = pull(daemon, image.official) {
                println!("no {}: {reason}", image.official);
                println!("making images of Debian's packages");
                make(daemon)?;
                return Ok(Self { made: true });
            }
        }
        Ok(Self { made: false })
    }

    /// Makes a command's test servers use these images.
    pub(super) fn with<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let names = IMAGES.map(|image| (image.variable, if self.made { image.ours } else { image.official }));
        command.envs(names)
    }

    /// Returns the reason if no container can run for lack of rights.
    pub(super) fn refusal(&self, daemon: &Daemon) -> Result<Option<String>, Failed> {
        for image in IMAGES {
            let name = if self.made { image.ours } else { image.official };
            let tried = daemon.docker(&["run", "--rm", "--network=none", name, "true"]).output()?;
            if !tried.status.success() {
                let reason = one_line(&String::from_utf8_lossy(&tried.stderr));
                return if is_about_rights(&reason) { Ok(Some(reason)) } else { Err(reason.into()) };
            }
        }
        Ok(None)
    }

    /// Removes the images that were made, if the daemon keeps running.
    pub(super) fn remove(&self, daemon: &Daemon) -> Result<(), Failed> {
        if self.made && daemon.is_of_others() {
            let names = IMAGES.map(|image| image.ours);
            daemon.docker(&["rmi", "--force"]).args(names).stdout(Stdio::null()).status()?;
        }
        Ok(())
    }
}

fn pull(daemon: &Daemon, image: &str) -> Result<(), String> {
    let inspect = daemon.docker(&["image", "inspect", image]).output().map_err(|error| error.to_string())?;
    if inspect.status.success() {
        return Ok(());
    }
    let mut pull = Command::new("timeout");
    let pull = daemon.with(pull.args([PULL_LIMIT, "docker", "pull", "--quiet", image]));
    let output = pull.output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(one_line(&String::from_utf8_lossy(&output.stderr))) }
}

/// Runs the script in its own namespaces, so that processes and mounts of packages end with it.
fn make(daemon: &Daemon) -> Result<(), Failed> {
    install(Package::Debootstrap)?;
    let folder = daemon.folder()?;
    // The kernel signals the script when this process is killed.
    let mut script = Command::new("setpriv");
    script
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"])
        .args(["sh", "-c", IMAGE, "image"])
        .arg(&folder)
        .args([&room(), ENTRYPOINT])
        .args(IMAGES.map(|image| image.ours))
        .stdin(Stdio::null());
    let made = daemon.with(&mut script).status();
    // The mounts in the folder ended with the namespace.
    std::fs::remove_dir_all(&folder)?;
    if made?.success() { Ok(()) } else { Err("the images could not be made".into()) }
}
