//! TLS: always with verification of the server's certificate and name.

use redis::ConnectionInfo;
use stanchion_core::{Error, Result};

/// The same address with TLS, trusting the authorities of a PEM file, or Mozilla's.
///
/// # Errors
/// `InvalidArgument` for a file that cannot be read or has no certificate.
#[cfg(feature = "tls")]
pub(super) fn secured(info: ConnectionInfo, ca: Option<&str>) -> Result<ConnectionInfo> {
    use redis::{Client, ConnectionAddr, TlsCertificates};
    use rustls::crypto::{CryptoProvider, ring};

    // The client library uses the process's provider, and panics where there is none and several could be meant.
    if CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster.
        let _ = ring::default_provider().install_default();
    }
    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
        return Err(Error::invalid_argument("TLS needs a host"));
    };
    let addr = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    let info = info.set_addr(addr);
    let Some(ca) = ca else { return Ok(info) };
    let bad = |why: &str| Error::invalid_argument(format!("ca: {why}: {ca}"));
    let pem = std::fs::read(ca).map_err(|error| bad("the file cannot be read").with_source(error))?;
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Err(bad("the file has no certificate in PEM format"));
    }
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
    let client = Client::build_with_tls(info, certificates)
        .map_err(|error| bad("the file's certificates are malformed").with_source(error))?;
    Ok(client.get_connection_info().clone())
}

#[cfg(not(feature = "tls"))]
pub(super) fn secured(_: ConnectionInfo, _: Option<&str>) -> Result<ConnectionInfo> {
    let detail = "turn on the NameBatch feature `tls` of `stanchion-redis`";
    Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail))
}
