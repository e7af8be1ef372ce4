//! An authority and a server certificate for one test server.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

use super::account::Account;
use super::error::ServerError;

/// The names of the files in the server's folder.
pub(super) const CA: &str = "ca.pem";
pub(super) const CERTIFICATE: &str = "server.pem";
pub(super) const KEY: &str = "server.key";

/// The TLS files of a server. Servers that talk to each other have the same files.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    ca: String,
    certificate: String,
    key: String,
}

impl Certificates {
    /// Creates an authority, and a certificate that it signs.
    pub(super) fn new() -> Result<Self, ServerError> {
        Self::make().map_err(|error| ServerError::io("make a certificate")(io::Error::other(error)))
    }

    /// Writes the files into a server's folder.
    pub(super) fn write(&self, folder: &Path) -> Result<(), ServerError> {
        for (file, text) in [(CA, &self.ca), (CERTIFICATE, &self.certificate), (KEY, &self.key)] {
            fs::write(folder.join(file), text).map_err(ServerError::io("write a certificate"))?;
        }
        Ok(())
    }

    /// Does the same as [`write`](Self::write), with a key that only this account can read, as
    /// Postgres demands.
    pub(super) fn write_for(&self, account: Option<Account>, folder: &Path) -> Result<(), ServerError> {
        self.write(folder)?;
        let key = folder.join(KEY);
        fs::set_permissions(&key, Permissions::from_mode(0o600))
            .map_err(ServerError::io("close the key to others"))?;
        account.map_or(Ok(()), |account| account.own(&key))
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
