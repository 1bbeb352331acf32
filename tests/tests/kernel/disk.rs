//! Files that cannot grow: a full disk, a device that is always full, a limit on the size of files.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use pipewriter_tests::both;
use pipewriter_tests::noise::noise;
use pipewriter_tests::subject::{Kind, Subject};

use super::child::Part;
use super::support::{Folder, check, commit, skipped, writer};

both! {
    a_full_disk_leaves_the_rest_and_the_flush_goes_on_when_there_is_space,
    a_device_that_is_always_full_leaves_all_with_the_writer,
    a_file_at_its_size_limit_leaves_the_rest_and_goes_on_when_the_limit_is_raised,
}

/// Mounts a disk of `bytes` at `path`, for this thread alone: it goes with the thread, whatever becomes of the test.
fn mount_small_disk(path: &Path, bytes: usize) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace: {error}"))?;
    // Else the mount would be seen by all.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .and_then(|()| mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(&*format!("size={bytes}"))))
        .map_err(|error| format!("no mount: {error}"))
}

fn grow_disk(path: &Path, bytes: usize) {
    mount(None::<&str>, path, None::<&str>, MsFlags::MS_REMOUNT, Some(&*format!("size={bytes}"))).unwrap();
}

fn a_full_disk_leaves_the_rest_and_the_flush_goes_on_when_there_is_space<K: Kind>() {
    let folder = Folder::new();
    thread::scope(|scope| {
        let test = scope.spawn(|| match mount_small_disk(folder.path(), 1 << 20) {
            Ok(()) => fill_a_disk::<K>(folder.path()),
            Err(reason) => skipped("a full disk", &reason),
        });
        test.join().unwrap();
    });
}

fn fill_a_disk<K: Kind>(disk: &Path) {
    let (ballast, path) = (disk.join("ballast"), disk.join("file"));
    fs::write(&ballast, vec![0; 500_000]).unwrap();
    let bytes = noise(10, 3 << 20);
    let (mut writer, reading) = writer::<K>(File::create(&path).unwrap());
    commit(&mut writer, &bytes);
    let mut before = 0;
    // Full; full again with nothing changed; with half of the space freed; with more than all that is needed.
    for (step, full, moves) in [(0, true, true), (1, true, false), (2, true, true), (3, false, true)] {
        match step {
            2 => fs::remove_file(&ballast).unwrap(),
            3 => grow_disk(disk, 8 << 20),
            _ => {}
        }
        match writer.flush() {
            Ok(_) => assert!(!full, "step {step}"),
            Err(error) => {
                assert!(full, "step {step}: {error}");
                assert_eq!(error.kind(), ErrorKind::StorageFull);
            }
        }
        let file = fs::read(&path).unwrap();
        assert_eq!(file.len(), reading.accepted(), "a file holds what it has accepted");
        assert_eq!(reading.accepted() + writer.unflushed_bytes(), bytes.len());
        assert!(file == bytes[..file.len()], "step {step}: the file is not the beginning of what was committed");
        assert_eq!(file.len() > before, moves, "step {step}");
        before = file.len();
    }
    writer.append(b"and more").unwrap();
    writer.complete().unwrap();
    assert!(fs::read(&path).unwrap() == [&bytes[..], b"and more"].concat());
}

fn a_device_that_is_always_full_leaves_all_with_the_writer<K: Kind>() {
    let device = match OpenOptions::new().write(true).open("/dev/full") {
        Ok(device) => device,
        Err(error) => return skipped("a device that is always full", &format!("no /dev/full: {error}")),
    };
    let bytes = noise(11, 1 << 20);
    let (mut writer, reading) = writer::<K>(device);
    commit(&mut writer, &bytes[..500_000]);
    for _ in 0..3 {
        assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(writer.unflushed_bytes(), 500_000);
    }
    assert_eq!(writer.write_and_flush(&bytes[500_000..]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(writer.complete().unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(!writer.handle().is_closed(), "a full disk is not a reader that has gone");
    check(&bytes, reading.accepted(), &writer.into_parts().1, b"");
    assert_eq!(reading.accepted(), 0);
}

/// In a process of its own, for the limit is one of the whole process.
fn a_file_at_its_size_limit_leaves_the_rest_and_goes_on_when_the_limit_is_raised<K: Kind>() {
    let folder = Folder::new();
    let part = if K::BLOCKING { Part::LimitBlocking } else { Part::LimitAsynchronous };
    let output = part.command(&folder.path().join("file")).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read(folder.path().join("file")).unwrap().len(), LIMITED);
}

const LIMITED: usize = 1 << 20;

/// The child's part of the test above.
pub(crate) fn meet_the_limit<K: Kind>(path: &Path) {
    // The signal that comes with the error would end the process. A signal that is blocked does nothing.
    SigSet::from_iter([Signal::SIGXFSZ]).thread_block().unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    let bytes = noise(12, LIMITED);
    let mut file = File::create(path).unwrap();
    // The size counts, not what this process has written.
    file.write_all(&bytes[..1000]).unwrap();
    let (mut writer, reading) = writer::<K>(file);
    commit(&mut writer, &bytes[1000..]);
    for limit in [1000, 1001, 300_000, 300_000, 777_777] {
        setrlimit(Resource::RLIMIT_FSIZE, limit, hard).unwrap();
        assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(1000 + reading.accepted(), limit as usize);
        assert_eq!(reading.accepted() + writer.unflushed_bytes(), LIMITED - 1000);
        assert!(fs::read(path).unwrap() == bytes[..limit as usize]);
    }
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard).unwrap();
    writer.complete().unwrap();
    assert!(fs::read(path).unwrap() == bytes);
}
