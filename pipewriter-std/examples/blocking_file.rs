//! The main job without async: `cargo run --release --example blocking_file [FILE]`.
//!
//! Each line of FILE (by default this project's README.md) becomes a record in a new file, which is then read back and
//! checked. The writer has the same methods as the async one, and is not awaited.

mod common;

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    process::{self, ExitCode},
};

use common::{Counted, HEADER, Lines, Tally};
use pipewriter_std::blocking::PipeWriter;

fn main() -> ExitCode {
    common::run("blocking_file", |out| store(Lines::open()?, out))
}

fn store(mut lines: Lines, out: &mut dyn Write) -> io::Result<()> {
    let folder = TempFolder::new()?;
    let path = folder.0.join("records");
    let mut writer = PipeWriter::new(Counted::new(File::create(&path)?));

    let mut sent = Tally::default();
    while let Some(line) = lines.next()? {
        let span = writer.span_mut(HEADER + line.len())?;
        let len = common::encode(span, line)?;
        writer.advance(len)?;
        sent.add(line);
        if writer.unflushed_bytes() >= 32 * 1024 {
            // One layer down, to the operating system; what the file itself would flush can wait.
            writer.emit()?;
        }
    }
    // Writes what is left, and tells of errors. A mere drop would write it too, but its errors reach nobody.
    writer.complete()?;

    sent.check(&common::decode(File::open(&path)?)?)?;
    writeln!(out, "records  {}, one for each line of {}", sent.records, lines.name)?;
    writeln!(out, "bytes    {} in the file, read back and right", sent.bytes)?;
    writeln!(out, "calls    {}", writer.get_ref().calls)
}

/// A new folder, gone at the end.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("pipewriter-blocking-file-{}", process::id()));
        fs::create_dir(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot create {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // If it can not be removed there is nothing better to do.
        let _ = fs::remove_dir_all(&self.0);
    }
}
