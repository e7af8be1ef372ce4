//! Adapts a server of the testbed to the step cases that pause and kill a server.

use std::ops::Deref;

use stanchion_conformance::steps::Outages;
use stanchion_testbed::servers::Server;

/// A private server for a step case that pauses or kills it.
#[derive(Debug)]
pub struct Outage<S>(pub S);

impl<S: Deref<Target = Server> + Send + Sync> Outages for Outage<S> {
    fn pause(&self) {
        self.0.pause().expect("a pause");
    }

    fn resume(&self) {
        self.0.resume().expect("the server goes on");
    }

    fn kill(&self) {
        self.0.kill().expect("a kill");
    }

    fn restart(&self) {
        self.0.restart().expect("a restart");
    }
}
