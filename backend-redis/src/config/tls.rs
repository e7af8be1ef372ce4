//! TLS. The certificate and the name of the server are always verified.

use redis::ConnectionInfo;
use stanchion_core::connect::UrlParameters;
use stanchion_core::{Error, Result};

/// The paths of PEM files.
#[derive(Debug)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS reads the files"))]
pub(super) struct TlsFiles {
    /// The authorities to trust in place of Mozilla's.
    ca: Option<String>,
    /// The client's certificate and its key, for a server that asks for them.
    cert: Option<String>,
    key: Option<String>,
}

impl TlsFiles {
    /// Takes them off a URL.
    ///
    /// # Errors
    /// `InvalidArgument` if one is given twice.
    pub(super) fn of_url(parameters: &mut UrlParameters) -> Result<Self> {
        let mut text = |key| parameters.text(key);
        Ok(Self { ca: text("ca")?, cert: text("cert")?, key: text("key")? })
    }
}

/// Returns the same address with TLS.
///
/// # Errors
/// `InvalidArgument` for a file that cannot be read or has not what it should, and for a
/// certificate without a key.
#[cfg(feature = "tls")]
pub(super) fn secured(info: ConnectionInfo, files: &TlsFiles) -> Result<ConnectionInfo> {
    use redis::{Client, ClientTlsConfig, ConnectionAddr, TlsCertificates};

    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
        return Err(Error::invalid_argument("TLS needs a host"));
    };
    let addr = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    let info = info.set_addr(addr);
    let TlsFiles { ca, cert, key } = files;
    let client_tls = match (cert, key) {
        (None, None) if ca.is_none() => return Ok(info),
        (None, None) => None,
        (Some(cert), Some(key)) => Some(ClientTlsConfig {
            client_cert: read("cert", cert, "CERTIFICATE-----", "certificate")?,
            client_key: read("key", key, "PRIVATE KEY-----", "private key")?,
        }),
        _ => return Err(Error::invalid_argument("cert and key belong together")),
    };
    let root_cert = ca.as_ref().map(|ca| read("ca", ca, "CERTIFICATE-----", "certificate")).transpose()?;
    let client =
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert }).map_err(|error| {
            // The client library names no file.
            let files: Vec<_> =
                [ca, cert, key].into_iter().flatten().map(|file| Error::shown(file).to_string()).collect();
            let detail = format!("one of the PEM files is malformed: {}", files.join(", "));
            Error::invalid_argument(detail).with_source(error)
        })?;
    Ok(client.get_connection_info().clone())
}

/// Reads a PEM file that has a part with that label.
#[cfg(feature = "tls")]
fn read(parameter: &str, path: &str, label: &str, what: &str) -> Result<Vec<u8>> {
    let bad = |why: &str| Error::invalid_argument(format!("{parameter}: {why}: {}", Error::shown(path)));
    let pem = std::fs::read(path).map_err(|error| bad("the file cannot be read").with_source(error))?;
    let text = String::from_utf8_lossy(&pem);
    if text.lines().any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(label)) {
        return Ok(pem);
    }
    Err(bad(&format!("the file has no {what} in PEM format")))
}

#[cfg(not(feature = "tls"))]
pub(super) fn secured(_: ConnectionInfo, _: &TlsFiles) -> Result<ConnectionInfo> {
    let detail = "turn on the Cargo feature `tls`";
    Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail))
}
