//! Children: this test binary once more, playing a part that must not be played in the process of the tests.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Command;
use std::thread;

const PART: &str = "PIPEWRITER_KERNEL_CHILD";
const FILE: &str = "PIPEWRITER_KERNEL_FILE";

/// What a child does, with a file whose path the parent gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// Copies its standard input to the file, up to [`READS`] bytes, and then waits to be killed.
    Read,
    /// Tests the limit on the size of files.
    LimitAsynchronous,
    LimitBlocking,
}

/// How much [`Part::Read`] takes before it waits.
pub(crate) const READS: usize = 32 << 20;

impl Part {
    const ALL: [Self; 3] = [Self::Read, Self::LimitAsynchronous, Self::LimitBlocking];

    /// The command that plays this part with the file at `path`.
    pub(crate) fn command(self, path: &std::path::Path) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "child::a_part_that_another_test_gives", "--ignored", "--nocapture"]);
        command.env(PART, format!("{self:?}")).env(FILE, path);
        command
    }
}

#[test]
#[ignore = "started by other tests, in a process of its own"]
fn a_part_that_another_test_gives() {
    let (Some(name), Some(path)) = (env::var_os(PART), env::var_os(FILE)) else { return };
    let part = Part::ALL.into_iter().find(|part| *format!("{part:?}") == *name).expect("a part by that name");
    match part {
        Part::Read => read_into(File::create(path).unwrap()),
        Part::LimitAsynchronous => {
            super::disk::meet_the_limit::<pipewriter_tests::subject::Asynchronous>(path.as_ref())
        }
        Part::LimitBlocking => super::disk::meet_the_limit::<pipewriter_tests::subject::Blocking>(path.as_ref()),
    }
}

fn read_into(mut file: File) {
    let mut buffer = vec![0; 64 * 1024];
    let mut left = READS;
    while left > 0 {
        let piece = left.min(buffer.len());
        match io::stdin().lock().read(&mut buffer[..piece]).unwrap() {
            0 => return,
            n => {
                file.write_all(&buffer[..n]).unwrap();
                left -= n;
            }
        }
    }
    loop {
        thread::park();
    }
}
