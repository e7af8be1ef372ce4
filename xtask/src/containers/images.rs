//! The images: those that are there or can be pulled, else made of Debian's packages.

use std::process::{Command, Stdio};

use stanchion_testbed::servers::install::Package;

use super::daemon::{Daemon, install, is_about_rights, one_line, room};

const IMAGE: &str = include_str!("image.sh");
const ENTRYPOINT: &str = include_str!("entrypoint.sh");
/// How long a registry may take to give an image, as `timeout` wants it.
const PULL_LIMIT: &str = "60";

type Failed = Box<dyn std::error::Error>;

/// What a server's container is made of.
struct Image {
    /// The environment variable by which the test servers are told.
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

/// An image of each server.
#[derive(Debug)]
pub(super) struct Images {
    made: bool,
}

impl Images {
    /// Takes the official images, or makes some where they cannot be had.
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

    /// A command whose test servers are made of these.
    pub(super) fn with<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let names = IMAGES.map(|image| (image.variable, if self.made { image.ours } else { image.official }));
        command.envs(names)
    }

    /// Why no container can run, if it is a lack of rights.
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

    /// Takes what was made from a daemon that goes on.
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

/// Runs the script in namespaces of its own, so that what packages start or mount ends with it.
fn make(daemon: &Daemon) -> Result<(), Failed> {
    install(Package::Debootstrap)?;
    let folder = daemon.folder()?;
    // Of the kernel it learns when this process is killed.
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
    // The mounts in it went with the namespace.
    std::fs::remove_dir_all(&folder)?;
    if made?.success() { Ok(()) } else { Err("the images could not be made".into()) }
}
