//! Handles, statuses and texts through the C interface.

use super::*;
use core::ffi::CStr;
use core::ptr::{null, null_mut};

fn detail() -> String {
    // SAFETY: the text belongs to the library, ends with a zero byte and stays until the next
    // failure.
    let text = unsafe { CStr::from_ptr(rackweave_error_detail()) };
    text.to_str().expect("texts are UTF-8").to_owned()
}

fn rack() -> *mut rackweave_rack {
    let mut rack = null_mut();
    // SAFETY: both pointers are valid.
    let status = unsafe { rackweave_rack_create(null(), &mut rack) };
    assert_eq!(status, rackweave_status::Ok, "{}", detail());
    rack
}

#[test]
fn every_status_has_a_text() {
    for status in rackweave_status::ALL {
        let text = rackweave_status_text(status as i32);
        assert!(!text.is_null(), "{status:?}");
    }
    let known = (-1..1000).filter(|status| !rackweave_status_text(*status).is_null());
    assert_eq!(known.count(), rackweave_status::ALL.len());
    let header = include_str!("../include/rackweave.h");
    let names = header
        .lines()
        .filter(|line| line.trim().starts_with("RACKWEAVE_STATUS_"));
    assert_eq!(names.count(), rackweave_status::ALL.len());
}

#[test]
fn a_panic_inside_is_a_status() {
    let status = error::call(|| panic!("what broke: {}", 7));
    assert_eq!(status, rackweave_status::Internal);
    assert_eq!(detail(), "what broke: 7");
}

#[test]
fn a_handle_that_panicked_can_only_be_destroyed() {
    struct Fragile;
    impl handle::Handled for Fragile {
        type Opaque = rackweave_region;
        const KIND: handle::Kind = handle::Kind::Region;
    }
    let handle = handle::insert(Fragile).expect("there is space");
    let act = |_: &mut Fragile| -> Result<(), error::Fault> { panic!("broken") };
    let status = error::call(|| handle::with(handle, act));
    assert_eq!(status, rackweave_status::Internal);
    let again = handle::with(handle, |_: &mut Fragile| Ok(()));
    let fault = again.expect_err("it is broken");
    assert_eq!(fault.status, rackweave_status::Internal);
    assert!(handle::remove::<Fragile>(handle).is_ok());
    let fault = handle::remove::<Fragile>(handle).err().expect("it is gone");
    assert_eq!(fault.status, rackweave_status::BadHandle);
}

#[test]
fn a_second_thread_is_told_that_a_handle_is_busy() {
    struct Slow;
    impl handle::Handled for Slow {
        type Opaque = rackweave_page_store;
        const KIND: handle::Kind = handle::Kind::PageStore;
    }
    let handle = handle::insert(Slow).expect("there is space");
    let number = handle.addr();
    let (inside, entered) = std::sync::mpsc::channel();
    let (done, leave) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let handle = core::ptr::without_provenance_mut(number);
        handle::with(handle, |_: &mut Slow| {
            inside.send(()).expect("somebody waits");
            leave.recv().expect("somebody tells");
            Ok(())
        })
    });
    entered.recv().expect("the thread gets there");
    let busy = handle::with(handle, |_: &mut Slow| Ok(()));
    assert_eq!(
        busy.expect_err("it is taken").status,
        rackweave_status::Busy
    );
    let busy = handle::remove::<Slow>(handle).err().expect("it is taken");
    assert_eq!(busy.status, rackweave_status::Busy);
    done.send(()).expect("the thread waits");
    assert!(other.join().expect("it does not panic").is_ok());
    assert!(handle::remove::<Slow>(handle).is_ok());
}

/// A reused slot is not mistaken for its previous object.
#[test]
fn stale_handles_stay_stale() {
    struct Thing(u32);
    impl handle::Handled for Thing {
        type Opaque = rackweave_flow_consumer;
        const KIND: handle::Kind = handle::Kind::FlowConsumer;
    }
    let mut stale = Vec::new();
    for round in 0..3000 {
        let handle = handle::insert(Thing(round)).expect("there is space");
        let seen = handle::with(handle, |thing: &mut Thing| Ok(thing.0));
        assert_eq!(seen.expect("it is there"), round);
        let thing = handle::remove::<Thing>(handle).expect("it is there");
        assert_eq!(thing.0, round);
        stale.push(handle);
    }
    for handle in stale {
        let gone = handle::with(handle, |_: &mut Thing| Ok(()));
        assert_eq!(
            gone.expect_err("it is gone").status,
            rackweave_status::BadHandle
        );
    }
}

#[test]
fn the_default_rack_has_room_for_everything() {
    let rack = rack();
    let mut length = 0;
    // SAFETY: a buffer of no bytes may be NULL; the length may be written.
    let status = unsafe { rackweave_rack_config(rack, null_mut(), 0, &mut length) };
    assert_eq!(status, rackweave_status::TooLong);
    let mut text = vec![0_u8; length + 1];
    // SAFETY: the buffer has this many bytes.
    let status =
        unsafe { rackweave_rack_config(rack, text.as_mut_ptr().cast(), text.len(), &mut length) };
    assert_eq!(status, rackweave_status::Ok);
    // The printed configuration is accepted.
    let mut second = null_mut();
    // SAFETY: the text ends with a zero byte; the handle may be written.
    let status = unsafe { rackweave_rack_create(text.as_ptr().cast(), &mut second) };
    assert_eq!(status, rackweave_status::Ok, "{}", detail());
    assert_eq!(rackweave_rack_destroy(second), rackweave_status::Ok);
    assert_eq!(rackweave_rack_destroy(rack), rackweave_status::Ok);
}

#[test]
fn a_rack_of_processes_is_joined() {
    use ::rackweave_rack::RackConfig;
    use ::rackweave_rack::hosted::{SwitchOptions, SwitchProcess};
    use core::sync::atomic::{AtomicBool, Ordering};
    let folder = std::env::temp_dir().join(format!("rackweave-capi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let control = listener.local_addr().expect("it is bound");
    drop(listener);
    let toml = format!(
        "[switch]\nbudget = \"software\"\nsequencers = 4\nsequencer_clients = 8\n\
         [[node]]\nname = \"storage0\"\nrole = \"storage\"\n\
         [[node]]\nname = \"compute0\"\nrole = \"compute\"\n\
         [hosted]\ncontrol = \"{control}\"\nsecurity = \"plain\"\ndirectory = \"run\"\n"
    );
    let path = folder.join("rack.toml");
    std::fs::write(&path, toml).expect("the folder is writable");
    let config = RackConfig::read(&path).expect("it makes sense");
    let process = SwitchProcess::new(SwitchOptions {
        config,
        listen: None,
        is_standby: false,
        elector: None,
    });
    let process = process.expect("the switch can be started");
    let stop = AtomicBool::new(false);
    let path = std::ffi::CString::new(path.to_str().expect("it is UTF-8")).expect("no zeros");
    std::thread::scope(|scope| {
        scope.spawn(|| process.run(&stop, &|_| {}));
        let mut rack = null_mut();
        // SAFETY: the texts end with zero bytes, and the pointer is valid.
        let status = unsafe { rackweave_rack_join(path.as_ptr(), c"nobody".as_ptr(), &mut rack) };
        let refused = (status, detail());
        // SAFETY: as above.
        let status = unsafe { rackweave_rack_join(path.as_ptr(), c"compute0".as_ptr(), &mut rack) };
        let joined = (status, detail());
        let mut sequencer = null_mut();
        // SAFETY: the handle is of a rack, if it was joined, and the pointer is valid.
        let made = unsafe { rackweave_sequencer_create(rack, 7, &mut sequencer) };
        assert_eq!(rackweave_sequencer_destroy(sequencer), rackweave_status::Ok);
        assert_eq!(rackweave_rack_destroy(rack), rackweave_status::Ok);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(refused.0, rackweave_status::BadConfig, "{}", refused.1);
        assert_eq!(joined.0, rackweave_status::Ok, "{}", joined.1);
        assert_eq!(made, rackweave_status::Ok, "{}", detail());
    });
    std::fs::remove_dir_all(&folder).expect("nothing uses it");
}
