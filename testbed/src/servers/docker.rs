//! Access to a Docker daemon, by `testcontainers`, for callers that block.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::mem;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use testcontainers::bollard::Docker as Client;
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::bollard::query_parameters::{
    InspectContainerOptions, InspectNetworkOptions, KillContainerOptions, StartContainerOptions,
};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use testcontainers::{GenericImage, ImageExt};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::error::ServerError;
use super::launch::ANSWER_LIMIT;

/// Time limit for pulling an image and starting a container.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The network that publishes a container's ports on the machine. Not every daemon has it.
const BRIDGE: &str = "bridge";
const MACHINE: &str = "host";

/// The daemon's connections belong to a runtime, so one runtime lives until the end of this
/// process.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

type Failed = Box<dyn Error + Send + Sync>;

/// The address on which a server in a container must listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) host: &'static str,
    pub(super) port: u16,
}

/// A daemon that answers.
#[derive(Clone)]
pub(super) struct Docker {
    client: Client,
    /// Whether containers have their own network; otherwise they share the machine's.
    bridged: bool,
}

impl Docker {
    /// Connects to the daemon that `DOCKER_HOST` names, or else to the machine's.
    pub(super) fn connect() -> Result<Self, ServerError> {
        let elsewhere = env::var("DOCKER_HOST").is_ok_and(|host| host.starts_with("tcp:"));
        let connected = on_runtime(ANSWER_LIMIT, async move {
            if elsewhere {
                return Err("a container there has no port here".into());
            }
            let client = docker_client_instance().await?;
            client.ping().await?;
            let bridge = client.inspect_network(BRIDGE, None::<InspectNetworkOptions>).await;
            Ok(Self { client, bridged: bridge.is_ok() })
        });
        connected.map_err(ServerError::container("reach a Docker daemon"))
    }

    /// Returns the address on which a server must listen in its container, so that it is reachable
    /// on this port of the machine's 127.0.0.1.
    pub(super) fn address(&self, port: u16) -> Address {
        Address { host: if self.bridged { "0.0.0.0" } else { "127.0.0.1" }, port }
    }

    /// Creates and starts a container. Pulls the image if it is missing.
    pub(super) fn run(
        &self,
        name: &str,
        image: &str,
        port: u16,
        command: &[String],
        environment: &[(&str, &str)],
    ) -> Result<(), ServerError> {
        let (image, tag) = name_and_tag(image);
        let mut request = GenericImage::new(image, tag)
            .with_container_name(name)
            .with_cmd(command)
            .with_network(if self.bridged { BRIDGE } else { MACHINE })
            .with_startup_timeout(START_LIMIT);
        for (name, value) in environment {
            request = request.with_env_var(*name, *value);
        }
        if self.bridged {
            request = request.with_host_config_modifier(move |host| publish(host, port));
        }
        let started = on_runtime(START_LIMIT, async {
            // This handle must not remove the container: it could not do it when the process is
            // killed.
            mem::forget(request.start().await?);
            Ok(())
        });
        started.map_err(ServerError::container("start a container"))
    }

    pub(super) fn kill(&self, name: &str) -> Result<(), ServerError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        let killed = on_runtime(START_LIMIT, async move {
            Ok(client.kill_container(&name, None::<KillContainerOptions>).await?)
        });
        killed.map_err(ServerError::container("kill a container"))
    }

    pub(super) fn start(&self, name: &str) -> Result<(), ServerError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        let started = on_runtime(START_LIMIT, async move {
            Ok(client.start_container(&name, None::<StartContainerOptions>).await?)
        });
        started.map_err(ServerError::container("start a container again"))
    }

    pub(super) fn is_running(&self, name: &str) -> Result<bool, ServerError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        let running = on_runtime(ANSWER_LIMIT, async move {
            let container = client.inspect_container(&name, None::<InspectContainerOptions>).await?;
            Ok(container.state.and_then(|state| state.running).unwrap_or(false))
        });
        running.map_err(ServerError::container("look at a container"))
    }
}

impl fmt::Debug for Docker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Docker").field("bridged", &self.bridged).finish_non_exhaustive()
    }
}

/// Publishes the port on 127.0.0.1 only: no other machine can reach it.
fn publish(host: &mut HostConfig, port: u16) {
    let binding = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: Some(port.to_string()) };
    host.publish_all_ports = Some(false);
    host.port_bindings = Some(HashMap::from([(format!("{port}/tcp"), Some(vec![binding]))]));
}

/// Splits `registry:5000/redis:7` into name and tag.
fn name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

/// Runs a future on the runtime of the connections, while this thread waits. The thread may belong
/// to another runtime.
fn on_runtime<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failed>> + Send + 'static,
) -> Result<T, Failed> {
    let (report, reported) = mpsc::channel();
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = match &mut *runtime {
        Some(runtime) => runtime.handle().clone(),
        none => {
            let made = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            none.insert(made).handle().clone()
        }
    };
    runtime.spawn(async move {
        let outcome = timeout(limit, work).await;
        // The receiver waits as long as this can take.
        let _ = report.send(outcome.unwrap_or_else(|_| Err("the Docker daemon took too long".into())));
    });
    reported.recv()?
}

#[cfg(test)]
mod tests {
    use super::name_and_tag;

    #[test]
    fn a_port_of_a_registry_is_no_tag() {
        assert_eq!(name_and_tag("redis:7.4"), ("redis", "7.4"));
        assert_eq!(name_and_tag("example.org:5000/team/redis"), ("example.org:5000/team/redis", "latest"));
        assert_eq!(name_and_tag("example.org:5000/redis:7"), ("example.org:5000/redis", "7"));
    }
}
