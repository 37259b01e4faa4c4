//! The identity of this process: its certificate and key, and the authority whose certificates it
//! accepts.

use crate::error::KeyError;
use crate::key_files::{self, Files, Fingerprint};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The suffix of all names in certificates.
const DNS_SUFFIX: &str = "node.rackweave";

/// The prefix of a name that is written in hexadecimal digits.
const DNS_HEX_MARK: &str = "hex--";

/// How a control connection is secured.
#[derive(Debug, Clone)]
pub enum Security {
    /// TLS with keys on both sides.
    Tls(Identity),
    /// Unsecured, on loopback addresses only.
    Plain {
        /// The name that this side claims.
        name: String,
    },
}

impl Security {
    /// The name of this side.
    pub fn name(&self) -> &str {
        match self {
            Security::Tls(identity) => identity.name(),
            Security::Plain { name } => name,
        }
    }

    /// Whether the credential of the other side of a connection is valid now. Without keys every
    /// one is.
    pub fn accepts(&self, shown: &Credential) -> bool {
        match (self, &shown.0) {
            (Security::Tls(identity), Some(certificate)) => identity.accepts(certificate),
            (Security::Tls(_), None) => false,
            (Security::Plain { .. }, _) => true,
        }
    }
}

/// The credential that the other side of a connection has presented.
#[derive(Clone, Debug)]
pub struct Credential(pub(crate) Option<CertificateDer<'static>>);

/// A name with its certificate and key, checked, and ready for either side of a connection.
#[derive(Clone)]
pub struct Identity {
    name: String,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
    roots: Arc<RootCertStore>,
    revoked: Arc<BTreeSet<Fingerprint>>,
}

/// Prints the name and no part of the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Loads `authority.crt`, `NAME.crt` and `NAME.key` from `dir`, and checks that they match.
    ///
    /// # Errors
    /// A file is missing, unreadable, corrupt, or of another rack or name; or the key can be read
    /// by other users.
    pub fn load(dir: &Path, name: &str) -> Result<Identity, KeyError> {
        key_files::check_name(name)?;
        let files = Files::new(dir, name);
        let authority_path = Files::authority(dir).certificate;
        let remake = format!(
            "remove {name}.crt and {name}.key, run `rackweave keygen --config FILE`, and copy the \
             new ones to where {name} runs"
        );
        let damaged = |path: &Path, detail: &str, remedy: &str| KeyError::Damaged {
            path: path.to_path_buf(),
            detail: detail.to_string(),
            remedy: remedy.to_string(),
        };
        let authority = key_files::read(&authority_path)?;
        let authority = CertificateDer::from_pem_slice(&authority).map_err(|_| {
            let remedy = "copy it again from where `rackweave keygen` made it, or remove all files \
                          there and make new ones for all";
            damaged(&authority_path, "holds no certificate", remedy)
        })?;
        let key = PrivateKeyDer::from_pem_slice(&key_files::read_private(&files.key)?)
            .map_err(|_| damaged(&files.key, "holds no private key", &remake))?;
        let certificate = CertificateDer::from_pem_slice(&key_files::read(&files.certificate)?)
            .map_err(|_| damaged(&files.certificate, "holds no certificate", &remake))?;
        let made = Identity::assemble(name, authority, certificate, key);
        let mut identity = made.map_err(|unfit| match unfit {
            Unfit::Expired => KeyError::Expired {
                path: files.certificate.clone(),
            },
            Unfit::Other(detail) => damaged(&files.certificate, &detail, &remake),
        })?;
        identity.revoked = Arc::new(key_files::revoked(dir)?);
        Ok(identity)
    }

    /// Builds an identity from its parts.
    ///
    /// # Errors
    /// Why the certificate is invalid.
    pub(crate) fn assemble(
        name: &str,
        authority: CertificateDer<'static>,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Identity, Unfit> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots
            .add(authority)
            .map_err(|error| format!("cannot be checked, for authority.crt is bad ({error})"))?;
        check_own(name, &certificate, &roots)?;
        let roots = Arc::new(roots);
        let chain = vec![certificate.clone()];
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| format!("cannot be used with authority.crt ({error})"))?;
        let unfit = |error: rustls::Error| format!("and its key do not go together ({error})");
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unfit)?;
        // Every connection authenticates again.
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        client.resumption = Resumption::disabled();
        Ok(Identity {
            name: name.to_string(),
            client: Arc::new(client),
            server: Arc::new(server),
            certificate,
            roots,
            revoked: Arc::default(),
        })
    }

    /// The name in the certificate.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its certificate is still valid after `more`.
    pub(crate) fn lasts(&self, more: Duration) -> bool {
        signed(&self.certificate, &self.roots, more).is_ok()
    }

    /// Whether a presented certificate is valid now.
    fn accepts(&self, certificate: &CertificateDer<'_>) -> bool {
        signed(certificate, &self.roots, Duration::ZERO).is_ok() && !self.has_revoked(certificate)
    }

    /// Whether the key in a certificate is revoked.
    pub(crate) fn has_revoked(&self, certificate: &CertificateDer<'_>) -> bool {
        // Data without a fingerprint is not a certificate that a peer could have presented.
        key_files::fingerprint(certificate).is_none_or(|key| self.revoked.contains(&key))
    }

    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        self.client.clone()
    }

    /// This identity claiming another name, and presenting the certificate of `client`, if given.
    #[cfg(test)]
    pub(crate) fn posing(mut self, name: &str, client: Option<ClientConfig>) -> Identity {
        self.name = name.to_string();
        self.client = client.map_or(self.client, Arc::new);
        self
    }

    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }
}

/// The DNS name by which certificates name `name`.
///
/// A name of lower-case letters, digits and inner hyphens is the first label of
/// `NAME.node.rackweave`. DNS names ignore case and do not allow underscores everywhere, so every
/// other name (and one that begins with `hex--`) is written as `hex--` and the name's bytes as
/// lower-case hexadecimal digits, with a dot after every 50 digits that are followed by more: `N_1`
/// is `hex--4e5f31.node.rackweave`. Different names thus have different DNS names.
pub fn dns_name(name: &str) -> String {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.starts_with(DNS_HEX_MARK)
        && (1..=key_files::NAME_LEN_MAX).contains(&name.len());
    if is_plain {
        return format!("{name}.{DNS_SUFFIX}");
    }
    let mut mapped = DNS_HEX_MARK.to_string();
    for (index, byte) in name.bytes().enumerate() {
        if index > 0 && index % 25 == 0 {
            mapped.push('.');
        }
        let _ = write!(mapped, "{byte:02x}");
    }
    format!("{mapped}.{DNS_SUFFIX}")
}

/// The name in a certificate for `name`, as a rustls type; `None` if no certificate can have it.
pub(crate) fn server_name(name: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(dns_name(name)).ok()
}

/// Whether `certificate`, of a known authority, names `name`.
pub(crate) fn certificate_names(certificate: &CertificateDer<'_>, name: &str) -> bool {
    match (ParsedCertificate::try_from(certificate), server_name(name)) {
        (Ok(parsed), Some(expected)) => verify_server_name(&parsed, &expected).is_ok(),
        _ => false,
    }
}

/// Why a certificate cannot be presented.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It has expired.
    Expired,
    /// Another reason, as text that follows the certificate's name.
    Other(String),
}

impl From<String> for Unfit {
    fn from(detail: String) -> Self {
        Unfit::Other(detail)
    }
}

/// Checks that `certificate` is signed by an authority in `roots`, and is still valid after `more`.
fn signed(
    certificate: &CertificateDer<'_>,
    roots: &RootCertStore,
    more: Duration,
) -> Result<(), rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let then = UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()) + more);
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, &[], then, algorithms.all)
}

/// Checks that `certificate` is signed by an authority in `roots` for `name`.
fn check_own(
    name: &str,
    certificate: &CertificateDer<'_>,
    roots: &RootCertStore,
) -> Result<(), Unfit> {
    use CertificateError::{Expired, ExpiredContext};
    signed(certificate, roots, Duration::ZERO).map_err(|error| match error {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => Unfit::Expired,
        error => format!("is not signed by the authority.crt beside it ({error})").into(),
    })?;
    match certificate_names(certificate, name) {
        true => Ok(()),
        false => Err(format!("does not name `{name}`").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_to_dns_names() {
        let long = "A".repeat(60);
        for (name, expect) in [
            ("controller", "controller.node.rackweave".to_string()),
            ("n-1", "n-1.node.rackweave".to_string()),
            ("N_1", "hex--4e5f31.node.rackweave".to_string()),
            ("-a", "hex--2d61.node.rackweave".to_string()),
            ("a-", "hex--612d.node.rackweave".to_string()),
            ("hex--61", "hex--6865782d2d3631.node.rackweave".to_string()),
            ("", "hex--.node.rackweave".to_string()),
            (
                &long,
                format!(
                    "hex--{}.{}.{}.node.rackweave",
                    "41".repeat(25),
                    "41".repeat(25),
                    "41".repeat(10)
                ),
            ),
        ] {
            assert_eq!(dns_name(name), expect);
        }
        assert!(server_name(&long).is_some());
        assert!(server_name(&"a".repeat(9000)).is_none());
    }
}
