//! An authority and a server certificate for one test server.

use std::fs;
use std::io;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

use super::error::ServerError;

/// The files in the server's folder.
pub(super) const CA: &str = "ca.pem";
pub(super) const CERTIFICATE: &str = "server.pem";
pub(super) const KEY: &str = "server.key";

/// What is written for a server with TLS.
#[derive(Debug)]
pub(super) struct Certificates {
    ca: String,
    certificate: String,
    key: String,
}

impl Certificates {
    /// Makes an authority and a certificate signed by it, and writes them into a folder.
    pub(super) fn write(folder: &Path) -> Result<(), ServerError> {
        let made =
            Self::make().map_err(|error| ServerError::io("make a certificate")(io::Error::other(error)))?;
        for (file, text) in [(CA, &made.ca), (CERTIFICATE, &made.certificate), (KEY, &made.key)] {
            fs::write(folder.join(file), text).map_err(ServerError::io("write a certificate"))?;
        }
        Ok(())
    }

    fn make() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "stanchion test authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok(Self { ca: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
