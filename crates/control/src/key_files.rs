//! Existing key files: their names, reading them, and the list of revoked keys.
//!
//! [`keys`](crate::keys) documents each file.

use crate::error::KeyError;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum length in bytes of a name with a key.
pub const NAME_LEN_MAX: usize = 60;

/// The list of revoked keys.
pub(crate) const REVOKED_FILE: &str = "revoked";

/// The name of the authority's files.
const AUTHORITY_FILE: &str = "authority";

/// The names of files that belong to the rack, and not to an owner of a key.
pub const NAMES_RESERVED: [&str; 2] = [AUTHORITY_FILE, REVOKED_FILE];

/// Maximum length of a file that is read, in bytes. Keys have about 700, a list of ten thousand
/// revoked keys less than this.
const FILE_LEN_MAX: u64 = 1 << 20;

/// SHA-256 of a public key (the DER of its SubjectPublicKeyInfo).
pub(crate) type Fingerprint = [u8; 32];

/// The fingerprint of the key in a certificate.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> Option<Fingerprint> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    digest(&parsed.subject_public_key_info())
}

pub(crate) fn digest(public_key: &[u8]) -> Option<Fingerprint> {
    let digest = ring::digest::digest(&ring::digest::SHA256, public_key);
    digest.as_ref().try_into().ok()
}

/// The revoked keys in the list of `dir`; empty if there is no list.
pub(crate) fn revoked(dir: &Path) -> Result<BTreeSet<Fingerprint>, KeyError> {
    let path = dir.join(REVOKED_FILE);
    if !exists(&path)? {
        return Ok(BTreeSet::new());
    }
    let text = String::from_utf8_lossy(&read(&path)?).into_owned();
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let all = lines.map(|line| parse_fingerprint(line.split(' ').next().unwrap_or_default()));
    all.collect::<Option<_>>().ok_or(KeyError::Damaged {
        path,
        detail: "has a line that begins with no fingerprint of 64 hexadecimal digits".to_string(),
        remedy: "correct it; until then no key of this rack is taken".to_string(),
    })
}

fn parse_fingerprint(hex: &str) -> Option<Fingerprint> {
    // The number parser accepts signs.
    if !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    bytes?.try_into().ok()
}

pub(crate) fn unwritable(path: &Path, error: io::Error) -> KeyError {
    KeyError::Unwritable {
        path: path.to_path_buf(),
        error,
    }
}

/// The two files of an owner of a key.
pub(crate) struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Files {
    pub(crate) fn new(dir: &Path, name: &str) -> Files {
        Files {
            certificate: dir.join(format!("{name}.crt")),
            key: dir.join(format!("{name}.key")),
        }
    }

    pub(crate) fn authority(dir: &Path) -> Files {
        Files::new(dir, AUTHORITY_FILE)
    }

    pub(crate) fn remove(&self) -> Result<(), KeyError> {
        for path in [&self.certificate, &self.key] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unwritable(path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Checks that `name` is valid for files and a certificate.
pub(crate) fn check_name(name: &str) -> Result<(), KeyError> {
    let is_good = (1..=NAME_LEN_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let rule = if !is_good {
        "1 to 60 letters, digits, - and _ are allowed"
    } else if NAMES_RESERVED.contains(&name) {
        "the rack's own files have it"
    } else {
        return Ok(());
    };
    Err(KeyError::BadName {
        name: name.to_string(),
        rule,
    })
}

/// The bytes of a key file, if it is a file of plausible length.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KeyError> {
    read_with(path, |_| Ok(()))
}

/// As [`read`], for a private key: only its owner may have access to it.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, KeyError> {
    read_with(path, |mode| match mode & 0o7777 {
        mode if mode & 0o077 != 0 => Err(KeyError::Exposed {
            path: path.to_path_buf(),
            mode,
        }),
        _ => Ok(()),
    })
}

fn read_with(
    path: &Path,
    check_mode: impl FnOnce(u32) -> Result<(), KeyError>,
) -> Result<Vec<u8>, KeyError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => KeyError::Missing {
            path: path.to_path_buf(),
        },
        _ => KeyError::Unreadable {
            path: path.to_path_buf(),
            error,
        },
    };
    // Checked before opening, because opening a pipe would block.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("not a file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    check_mode(file.metadata().map_err(unreadable)?.mode())?;
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(unreadable(io::Error::other("longer than 1 MiB")));
    }
    Ok(bytes)
}

pub(crate) fn exists(path: &Path) -> Result<bool, KeyError> {
    path.try_exists().map_err(|error| KeyError::Unreadable {
        path: path.to_path_buf(),
        error,
    })
}
