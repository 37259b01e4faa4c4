//! The key files of a rack: their names and how they are created.
//!
//! | file | content | needed by |
//! |---|---|---|
//! | `authority.crt` | the certificate of the rack's authority | every process |
//! | `authority.key` | its private key | only the machine that runs [`keygen`] |
//! | `NAME.crt`, `NAME.key` | certificate and private key of NAME | only the machine of NAME |
//! | `revoked` | the revoked keys, a line for each | every process, above all the controller |
//!
//! All except the last are PEM texts, keys are ECDSA P-256 in PKCS #8. The authority has a fixed
//! distinguished name, so that a later [`keygen`] needs nothing but its key to sign for more names.
//! Its certificate is valid until 2120. The certificate of a name is valid for [`LIFETIME`], or as
//! long as the caller of [`keygen_for`] asks, and is renewed with the same key when a third of that
//! is left.

use crate::error::KeyError;
use crate::identity::{Identity, dns_name};
use crate::key_files::{
    Files, REVOKED_FILE, check_name, digest, exists, fingerprint, read, read_private, revoked,
    unwritable,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

pub use crate::key_files::{NAME_LEN_MAX, NAMES_RESERVED};

/// Default validity period of a certificate.
pub const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long before its creation a certificate becomes valid, because the clocks of machines differ.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(24 * 3600);

/// The distinguished name of every authority.
const AUTHORITY_COMMON_NAME: &str = "Rackweave rack authority";

/// The result of [`keygen`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeygenReport {
    /// The authority.
    pub authority: Outcome,
    /// The names, in the order given.
    pub names: Vec<(String, Outcome)>,
}

/// Whether a key was created or existed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Key or certificate were missing and were created.
    Made,
    /// Both existed, were valid, and were not changed.
    Kept,
    /// Both existed, and the certificate had expired or was about to: there is a new one for the
    /// same key.
    Renewed,
}

/// Creates the authority of a rack and a key for each of `names`, in `dir`, which is created if
/// missing (mode 0700). Existing files are kept. Private keys have mode 0600.
///
/// Certificates last for [`LIFETIME`] from now on.
///
/// Every file appears complete or not at all, a key before its certificate: after a crash, run it
/// again. Concurrent calls on one directory wait for each other.
///
/// # Errors
/// An invalid name; a directory in which other users may write; a file that cannot be read or
/// written, or that exists and is invalid.
pub fn keygen(dir: &Path, names: &[&str]) -> Result<KeygenReport, KeyError> {
    keygen_for(dir, names, LIFETIME)
}

/// [`keygen`] with certificates that last for `lifetime` from now on; existing ones that expire
/// within a third of it are renewed.
///
/// # Errors
/// As for [`keygen`].
pub fn keygen_for(
    dir: &Path,
    names: &[&str],
    lifetime: Duration,
) -> Result<KeygenReport, KeyError> {
    for name in names {
        check_name(name)?;
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| unwritable(dir, error))?;
    let _lock = lock(dir)?;
    let (authority, outcome) = Authority::load_or_make(dir)?;
    let mut report = KeygenReport {
        authority: outcome,
        names: Vec::new(),
    };
    for name in names {
        let outcome = authority.make(dir, name, lifetime)?;
        report.names.push((name.to_string(), outcome));
    }
    Ok(report)
}

/// Revokes the key of `name`: adds it to the list `revoked` and removes its files, so that the next
/// [`keygen`] makes a new key. If a crash interrupts it, run it again.
///
/// # Errors
/// An invalid name; no certificate for it in `dir`; a file that cannot be read or written.
pub fn revoke(dir: &Path, name: &str) -> Result<(), KeyError> {
    check_name(name)?;
    let _lock = lock(dir)?;
    let files = Files::new(dir, name);
    let certificate = CertificateDer::from_pem_slice(&read(&files.certificate)?)
        .ok()
        .and_then(|certificate| fingerprint(&certificate));
    let Some(fingerprint) = certificate else {
        return Err(KeyError::Damaged {
            path: files.certificate,
            detail: "holds no certificate".to_string(),
            remedy: "add the fingerprint of its key to `revoked` by hand".to_string(),
        });
    };
    let path = dir.join(REVOKED_FILE);
    let mut text = match exists(&path)? {
        true => String::from_utf8_lossy(&read(&path)?).into_owned(),
        false => {
            "# Revoked keys: SHA-256 of the public key, and the name that it was for.\n".into()
        }
    };
    let hex: String = fingerprint
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    text.push_str(&format!("{hex} {name}\n"));
    write_file(&path, &text, 0o644)?;
    files.remove()
}

/// Ensures that only one process at a time changes the keys of a directory, in which no other user
/// may write. The lock is released when it is dropped, however the process ends.
fn lock(dir: &Path) -> Result<File, KeyError> {
    let lock = File::open(dir).map_err(|error| unwritable(dir, error))?;
    let metadata = lock.metadata().map_err(|error| unwritable(dir, error))?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(KeyError::OpenDirectory {
            path: dir.to_path_buf(),
            mode,
        });
    }
    lock.lock().map_err(|error| unwritable(dir, error))?;
    Ok(lock)
}

/// The rack's authority, ready to sign.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn load_or_make(dir: &Path) -> Result<(Authority, Outcome), KeyError> {
        let files = Files::authority(dir);
        let had_certificate = exists(&files.certificate)?;
        let key = match (had_certificate, exists(&files.key)?) {
            (true, false) => return Err(KeyError::NoAuthorityKey { path: files.key }),
            (_, true) => load_key(&files.key)?,
            (false, false) => make_key(&files.key)?,
        };
        let params = authority_params();
        if !had_certificate {
            let certificate = params.self_signed(&key).map_err(library)?;
            write_file(&files.certificate, &certificate.pem(), 0o644)?;
        }
        let certificate = CertificateDer::from_pem_slice(&read(&files.certificate)?)
            .map_err(|_| authority_damaged(&files.certificate, "holds no certificate"))?;
        let outcome = if had_certificate {
            Outcome::Kept
        } else {
            Outcome::Made
        };
        let issuer = Issuer::new(params, key);
        Ok((
            Authority {
                certificate,
                issuer,
            },
            outcome,
        ))
    }

    /// Ensures that `name` has a key and a certificate.
    fn make(&self, dir: &Path, name: &str, lifetime: Duration) -> Result<Outcome, KeyError> {
        let files = Files::new(dir, name);
        // Left by a revocation that was interrupted.
        if exists(&files.key)? && is_revoked(dir, &load_key(&files.key)?)? {
            files.remove()?;
        }
        let mut outcome = Outcome::Made;
        let key = match (exists(&files.certificate)?, exists(&files.key)?) {
            (true, true) => {
                match Identity::load(dir, name) {
                    Ok(identity) if identity.lasts(lifetime / 3) => return Ok(Outcome::Kept),
                    Ok(_) | Err(KeyError::Expired { .. }) => outcome = Outcome::Renewed,
                    Err(error) => return Err(error),
                }
                read_private(&files.key)?;
                load_key(&files.key)?
            }
            (true, false) => {
                return Err(KeyError::Damaged {
                    path: files.certificate,
                    detail: "has lost its private key".to_string(),
                    remedy: "remove it, and run `rackweave keygen` again".to_string(),
                });
            }
            (false, true) => load_key(&files.key)?,
            (false, false) => make_key(&files.key)?,
        };
        let certificate = owner_params(name, lifetime)
            .and_then(|params| params.signed_by(&key, &self.issuer))
            .map_err(library)?;
        let der =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|detail| KeyError::Library {
                detail: detail.to_string(),
            })?;
        // Before it is written: authority.key may not be the key of authority.crt.
        let authority = self.certificate.clone();
        let whole = Identity::assemble(name, authority, certificate.der().clone(), der);
        whole.map_err(|_| {
            let path = Files::authority(dir).certificate;
            authority_damaged(&path, "does not belong to authority.key")
        })?;
        write_file(&files.certificate, &certificate.pem(), 0o644)?;
        Ok(outcome)
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY_COMMON_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
    params
}

fn owner_params(name: &str, lifetime: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(vec![dns_name(name)])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_SKEW_MAX).into();
    params.not_after = (now + lifetime).into();
    Ok(params)
}

fn make_key(path: &Path) -> Result<KeyPair, KeyError> {
    let key = KeyPair::generate().map_err(library)?;
    write_file(path, &key.serialize_pem(), 0o600)?;
    Ok(key)
}

fn load_key(path: &Path) -> Result<KeyPair, KeyError> {
    let bytes = read_private(path)?;
    std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| KeyPair::from_pem(text).ok())
        .ok_or_else(|| KeyError::Damaged {
            path: path.to_path_buf(),
            detail: "holds no private key".to_string(),
            remedy: "put the right file there; or remove it and the .crt of the same name, run \
                     `rackweave keygen` again, and if it is the authority's remove all others too"
                .to_string(),
        })
}

fn is_revoked(dir: &Path, key: &KeyPair) -> Result<bool, KeyError> {
    let list = revoked(dir)?;
    Ok(digest(&key.subject_public_key_info()).is_some_and(|key| list.contains(&key)))
}

fn authority_damaged(path: &Path, detail: &str) -> KeyError {
    KeyError::Damaged {
        path: path.to_path_buf(),
        detail: detail.to_string(),
        remedy:
            "put the right file there; or remove it, run `rackweave keygen` again, and copy it \
                 to all machines"
                .to_string(),
    }
}

fn library(error: rcgen::Error) -> KeyError {
    KeyError::Library {
        detail: error.to_string(),
    }
}

/// Writes a new file so that it exists complete or not at all, even after a power failure.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), KeyError> {
    let write = || {
        let mut part = path.as_os_str().to_os_string();
        part.push(".part");
        // Left by a run that was killed; the lock ensures that no process is writing it.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        match path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(|error| KeyError::Unwritable {
        path: path.to_path_buf(),
        error,
    })
}
