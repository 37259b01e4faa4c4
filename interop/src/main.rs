//! The interoperability suite: this project's NIC and switch against the RoCE stack of Linux, which
//! runs in emulated machines. `interop/run` builds what is needed and starts this program.
//!
//! Start reading at `nic_tests`, `flow_tests` and `hosted_tests`.

mod cable;
mod captures;
mod driver;
mod failure;
mod flow_tests;
mod guest;
mod guest_node;
mod hosted_tests;
mod nic_tests;
mod pattern;
mod suite;
mod test_node;

use cable::Cable;
use failure::{Failure, FailureContext, Outcome};
use guest::{Folders, Guest, Tunnel};
use rackweave_base::{Memory, PortId, Rng};
use rackweave_link::{CaptureOptions, SharedCapture};
use rackweave_wire::Rewrite;
use std::path::PathBuf;
use std::process::ExitCode;
use suite::Suite;

/// The options of the command line.
struct Arguments {
    folders: Folders,
    filter: Option<String>,
    keep: bool,
    seed: u64,
}

impl Arguments {
    fn parse() -> Result<Self, String> {
        let mut folders = [const { None }; 4];
        let names = ["--interop", "--images", "--records", "--sockets"];
        let (mut filter, mut keep, mut seed) = (None, false, 1);
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut value = || {
                let missing = || format!("{name} needs a value");
                arguments.next().ok_or_else(missing)
            };
            if let Some(at) = names.iter().position(|known| *known == name) {
                folders[at] = Some(PathBuf::from(value()?));
                continue;
            }
            match name.as_str() {
                "--filter" => filter = Some(value()?),
                "--seed" => {
                    let text = value()?;
                    let number = guest_node::number(&text);
                    seed = number.ok_or_else(|| format!("--seed takes a number, not {text}"))?;
                }
                "--keep" => keep = true,
                _ => return Err(format!("{name} is unknown; start this by interop/run")),
            }
        }
        let [Some(interop), Some(images), Some(records), Some(sockets)] = folders else {
            return Err(format!("{} are needed", names.join(", ")));
        };
        Ok(Self {
            folders: Folders {
                interop,
                images,
                records,
                sockets,
            },
            filter,
            keep,
            seed,
        })
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("rackweave-interop: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("rackweave-interop: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Boots the guests and runs everything. True if all tests have passed.
fn run(arguments: &Arguments) -> Outcome<bool> {
    let folders = &arguments.folders;
    println!("seed {}", arguments.seed);
    let mut rng = Rng::new(arguments.seed);
    let mut suite = Suite::new(arguments.filter.clone());
    let tunnel = Tunnel::find()?;
    let mut guests = [
        Guest::start(folders, 1, Some(tunnel))?,
        Guest::start(folders, 2, None)?,
    ];
    for guest in &mut guests {
        guest.wait_ready()?;
    }
    let mut files = vec![run_nic(&mut suite, &guests[0], folders, rng.fork("nic"))?];
    let racks = [("", Rewrite::Update), ("ICRC balanced", Rewrite::Balance)];
    for (label, rewrite) in racks {
        let rng = rng.fork(label);
        files.push(run_flows(
            &mut suite, label, rewrite, &guests, folders, rng,
        )?);
    }
    let rng = rng.fork("hosted");
    files.push(hosted_tests::run(
        &mut suite, &guests[0], tunnel, folders, rng,
    )?);
    if arguments.keep {
        wait_for_enter(&guests);
    }
    for guest in &mut guests {
        guest.stop();
    }
    files.extend(guests.iter().map(|guest| guest.record("pcap")));
    suite.check("captures: tshark finds nothing malformed", || {
        captures::well_formed(&files)
    });
    suite.check("captures: every ICRC is right", || {
        captures::icrc_right(&folders.interop, &files)
    });
    Ok(suite.finish())
}

/// Runs the tests of the NIC against one guest; returns the path of their capture.
fn run_nic(suite: &mut Suite, guest: &Guest, folders: &Folders, mut rng: Rng) -> Outcome<PathBuf> {
    let file = folders.records.join("nic.pcapng");
    let memory = Memory::new(64 << 20);
    let options = CaptureOptions {
        ports: vec![format!("guest {}", guest.id)],
        bytes_max: None,
    };
    let refused = |error| Failure::refused("the capture", error);
    let capture = SharedCapture::create(&file, &options, memory.clone()).map_err(refused)?;
    let cable = Cable::plug(guest, &memory, &capture, PortId(0), rng.fork("cable"))?;
    let host = nic_tests::host::Host::start(cable, memory, rng.fork("nic"));
    let mut bench = nic_tests::Bench {
        host: &host,
        node: &mut guest.node().at("the guest's node")?,
        rng: rng.fork("tests"),
    };
    nic_tests::run(suite, &mut bench);
    drop(host);
    capture.finish().map_err(refused)?;
    Ok(file)
}

/// Runs the flows through a switch that updates the ICRC by `rewrite`; returns the path of their
/// capture.
fn run_flows(
    suite: &mut Suite,
    label: &str,
    rewrite: Rewrite,
    guests: &[Guest; 2],
    folders: &Folders,
    mut rng: Rng,
) -> Outcome<PathBuf> {
    let name = if label.is_empty() {
        "flow"
    } else {
        "flow-balanced"
    };
    let file = folders.records.join(format!("{name}.pcapng"));
    let memory = Memory::new(64 << 20);
    let options = CaptureOptions {
        ports: ["guest 1", "guest 2", "ours 1", "ours 2"]
            .map(str::to_owned)
            .to_vec(),
        bytes_max: None,
    };
    let refused = |error| Failure::refused("the capture", error);
    let capture = SharedCapture::create(&file, &options, memory.clone()).map_err(refused)?;
    let mut rack = flow_tests::rack::Rack::start(guests, &memory, &capture, rewrite, &mut rng)?;
    if label.is_empty() {
        flow_tests::programs::run(suite, &rack, guests);
    }
    flow_tests::run(suite, label, &mut rack, guests);
    drop(rack);
    capture.finish().map_err(refused)?;
    Ok(file)
}

fn wait_for_enter(guests: &[Guest]) {
    for guest in guests {
        println!(
            "guest {}: its node is at 127.0.0.1:{}",
            guest.id, guest.port
        );
    }
    println!("press Enter to end");
    // End of input ends it too.
    let _ = std::io::stdin().read_line(&mut String::new());
}
