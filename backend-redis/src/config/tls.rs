//! TLS. The certificate and the name of the server are always verified.

use redis::ConnectionInfo;
use stanchion_core::{Error, Result};

/// Returns the same address with TLS, trusting the authorities of a PEM file, or those of Mozilla.
///
/// # Errors
/// `InvalidArgument` for a file that cannot be read or has no certificate.
#[cfg(feature = "tls")]
pub(super) fn secured(info: ConnectionInfo, ca: Option<&str>) -> Result<ConnectionInfo> {
    use redis::{Client, ConnectionAddr, TlsCertificates};

    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
        return Err(Error::invalid_argument("TLS needs a host"));
    };
    let addr = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    let info = info.set_addr(addr);
    let Some(ca) = ca else { return Ok(info) };
    let bad = |why: &str| Error::invalid_argument(format!("ca: {why}: {}", Error::shown(ca)));
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
    let detail = "turn on the Cargo feature `tls` of `stanchion-redis`";
    Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail))
}
