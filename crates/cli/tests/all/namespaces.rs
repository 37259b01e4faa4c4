//! The demo between two network namespaces: the switch and each node share only Ethernet interfaces
//! of the usual MTU, and RoCE is carried by AF_PACKET sockets, or in VXLAN. A third namespace is a
//! foreign host.

use std::path::Path;
use std::process::Command;

#[test]
fn the_demo_runs_between_two_namespaces_on_packet_sockets() {
    demo_between_namespaces("packet");
}

#[test]
fn the_demo_runs_between_two_namespaces_in_vxlan() {
    demo_between_namespaces("udp");
}

fn demo_between_namespaces(link: &str) {
    let folder = format!("rackweave-netns-{link}-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/namespaces.sh");
    // Root needs no user namespace; others may not be allowed one.
    let run = |flags: &[&str]| {
        Command::new("timeout")
            .args(["--kill-after=5", "120", "unshare"])
            .args(flags)
            .args(["--net", "--"])
            .arg(&script)
            .arg(env!("CARGO_BIN_EXE_rackweave"))
            .arg(&folder)
            .arg(link)
            .output()
    };
    let is_permitted = |flags: &[&str]| {
        let tried = Command::new("unshare")
            .args(flags)
            .args(["--net", "--", "ip", "link", "add", "try0", "type", "veth"])
            .output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let user: &[&str] = &["--user", "--map-root-user"];
    let Some(flags) = [&[], user].into_iter().find(|flags| is_permitted(flags)) else {
        println!("skipped: network namespaces are not permitted here, or iproute2 is missing");
        return;
    };
    let output = run(flags).expect("unshare just worked");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.code() == Some(77) {
        println!("skipped: {out}{err}");
        return;
    }
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert!(out.contains("\"verified\": true"), "{out}\n{err}");
    // 1500 bytes of Ethernet carry an RDMA MTU of 1024, with VXLAN or without.
    let mtu = err
        .lines()
        .filter(|line| line.contains(" yes ") && line.contains(" 1024 "));
    assert_eq!(mtu.count(), 1, "{err}");
    // The foreign host has learned the switch's address from the switch.
    let learned = err.contains("foreign host: 10.77.255.254 dev ");
    assert!(learned, "{err}");
    std::fs::remove_dir_all(&folder).unwrap();
}
