//! Clients whose keys do not match their claims: only a client that breaks the rules can do this.

use super::*;
use crate::keys::keygen;
use crate::{CONTROLLER_NAME, Identity, Introduction};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use std::path::{Path, PathBuf};

#[test]
fn the_oldest_of_the_most_frequent_goes() {
    let of = |addresses: &[u8]| {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|&low| IpAddr::from([10, 0, 0, low]))
            .collect();
        oldest_of_most(&addresses)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[1, 2, 3]), Some(0));
    assert_eq!(of(&[1, 2, 3, 2]), Some(1));
    assert_eq!(of(&[1, 2, 2, 1]), Some(0));
}

const LONG: Duration = Duration::from_secs(60);

fn keys(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("rackweave-{test}-{}", std::process::id()));
    keygen(&dir, &[CONTROLLER_NAME, "n0", "n1"]).expect("keys are made");
    dir
}

/// The two sides' errors when a client with `identity` connects to the controller of `dir`.
fn both_errors(dir: &Path, identity: Identity) -> (ControlError, ControlError) {
    let controller = Identity::load(dir, CONTROLLER_NAME).expect("good keys");
    let listener = Listener::bind("127.0.0.1:0", Security::Tls(controller)).expect("a free port");
    let addr = listener.local_addr().expect("bound");
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let incoming = listener.accept(LONG).unwrap().expect("somebody connects");
            incoming.handshake(Instant::now() + LONG)
        });
        let introduction = Introduction {
            purpose: String::new(),
            rack: String::new(),
            body: json!("x".repeat(9000)),
        };
        let client = Connection::connect(addr, &Security::Tls(identity), introduction, LONG);
        let server = server.join().unwrap();
        (
            client.expect_err("the client fails"),
            server.expect_err("the server fails"),
        )
    })
}

/// A client that trusts the authority of `dir`, with the key in `shown`, if any.
fn client_config(dir: &Path, shown: Option<&Path>) -> ClientConfig {
    let file = |dir: &Path, name: &str| std::fs::read(dir.join(name)).expect("made");
    let certificate = |dir: &Path, name: &str| {
        CertificateDer::from_pem_slice(&file(dir, name)).expect("a certificate")
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate(dir, "authority.crt")).expect("good");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("it has TLS 1.3")
        .with_root_certificates(roots);
    let Some(shown) = shown else {
        return builder.with_no_client_auth();
    };
    let key = PrivateKeyDer::from_pem_slice(&file(shown, "n0.key")).expect("a key");
    builder
        .with_client_auth_cert(vec![certificate(shown, "n0.crt")], key)
        .expect("they belong together")
}

#[test]
fn a_key_of_another_authority() {
    // As if authority.crt had been copied to the node, and the node's own key forgotten.
    let (ours, theirs) = (keys("authority-ours"), keys("authority-theirs"));
    let identity = Identity::load(&ours, "n0").expect("good keys");
    let config = client_config(&ours, Some(&theirs));
    // Repeated often: the alert races with the data that the client still sends.
    for _ in 0..20 {
        let posing = identity.clone().posing("n0", Some(config.clone()));
        let (client, server) = both_errors(&ours, posing);
        assert!(matches!(client, ControlError::WrongKey { .. }), "{client}");
        assert!(
            client.to_string().contains("refused this side's key"),
            "{client}"
        );
        assert!(matches!(server, ControlError::WrongKey { .. }), "{server}");
        assert!(
            server.to_string().contains("not of this rack's authority"),
            "{server}"
        );
    }
    for dir in [ours, theirs] {
        std::fs::remove_dir_all(dir).expect("made");
    }
}

#[test]
fn no_key_at_all() {
    let dir = keys("none");
    let identity = Identity::load(&dir, "n0").expect("good keys");
    let posing = identity.posing("n0", Some(client_config(&dir, None)));
    let (client, server) = both_errors(&dir, posing);
    assert!(matches!(client, ControlError::WrongKey { .. }), "{client}");
    assert!(matches!(server, ControlError::WrongKey { .. }), "{server}");
    assert!(
        server.to_string().contains("shows no certificate"),
        "{server}"
    );
    std::fs::remove_dir_all(dir).expect("made");
}

#[test]
fn a_certificate_for_another_name() {
    let dir = keys("name");
    for name in ["n1", CONTROLLER_NAME, "", "N0", "n0.node.rackweave", "*"] {
        let identity = Identity::load(&dir, "n0").expect("good keys");
        let (client, server) = both_errors(&dir, identity.posing(name, None));
        assert!(matches!(client, ControlError::Refused { .. }), "{client}");
        assert!(
            client.to_string().contains("does not bear the name"),
            "{client}"
        );
        assert!(matches!(server, ControlError::WrongKey { .. }), "{server}");
        let claim = format!("says that it is `{name}`");
        assert!(server.to_string().contains(&claim), "{server}");
    }
    std::fs::remove_dir_all(dir).expect("made");
}
