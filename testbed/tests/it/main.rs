//! The servers and the fault tools: all integration tests in one program.

mod faults_logins;
mod faults_postgres;
mod faults_redis;
mod faults_servers;
mod servers;
mod wire;
