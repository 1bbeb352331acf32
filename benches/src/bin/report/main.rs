//! Measures everything, prints it, and keeps it as a record: see `BENCHMARKS.md`.
//!
//! ```text
//! report            all of it, with several processes; writes benches/record/<target>/<date>.{csv,txt} and the charts
//! report --quick    each thing once, for the bytes: a few seconds, writes nothing
//! report --only SECTION    one of micro, growth, streams, memory, dotnet; prints, writes nothing
//! report --draw RECORD.csv    draws the charts of a record again
//! ```

mod bounds;
mod charts;
mod children;
mod print;
mod record;
mod sections;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use pipewriter_benches::{clock::today, ledger::Ledger};

use crate::{record::Record, sections::Effort};

#[global_allocator]
static LEDGER: Ledger = Ledger;

/// The build that users get.
pub(crate) const PLAIN: &str = "plain";
/// The build with basic blocks aligned, in which loops do not depend on where the linker puts them.
pub(crate) const ALIGNED: &str = "aligned";

const SECTIONS: [&str; 5] = ["micro", "growth", "streams", "memory", "dotnet"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => report(),
        ["--quick"] => quick(),
        ["--only", section] if SECTIONS.contains(&section) => only(section),
        ["--draw", path] => draw(Path::new(path)),
        // How the report starts itself for one section.
        ["--child", section, build] => match sections::measure(section, build, Effort::Full) {
            Some(record) => {
                print!("{}", record.to_csv());
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        },
        _ => {
            eprintln!("usage: report [--quick | --only {} | --draw RECORD.csv]", SECTIONS.join("|"));
            ExitCode::FAILURE
        }
    }
}

fn quick() -> ExitCode {
    for section in ["micro", "growth", "streams", "memory"] {
        let record = sections::measure(section, PLAIN, Effort::Quick).unwrap_or_default();
        println!("{section}: {} numbers, every byte arrived", record.rows.len());
    }
    println!("no bound was judged: that takes `report` without --quick");
    ExitCode::SUCCESS
}

fn only(section: &str) -> ExitCode {
    let record = children::run(&[section]);
    println!("{}\n{}", print::tables(&record), bounds::table(&record).0);
    ExitCode::SUCCESS
}

/// The folder of the records, from the top of the repository or from the member.
fn records() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    manifest.unwrap_or_else(|| PathBuf::from("benches")).join("record")
}

fn report() -> ExitCode {
    let about = print::about();
    println!("{about}");
    let record = children::run(&SECTIONS);
    let (bounds, broken) = bounds::table(&record);
    let tables = print::tables(&record);
    println!("{tables}\n{bounds}");
    let folder = records().join(print::target());
    let date = unused(&folder, &today());
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(format!("{date}.csv")), record.to_csv()))
        .and_then(|()| std::fs::write(folder.join(format!("{date}.txt")), format!("{about}\n{bounds}\n{tables}")));
    if let Err(error) = written.map_err(Into::into).and_then(|()| charts::draw(&record, &folder)) {
        eprintln!("the record was not written: {error}");
        return ExitCode::FAILURE;
    }
    println!("{broken} bounds do not hold; the record is {date} for {}", print::target());
    ExitCode::SUCCESS
}

/// `date`, or with a number behind it where there are records of that date: perhaps from another machine.
fn unused(folder: &Path, date: &str) -> String {
    let later = (2..).map(|number| format!("{date}-{number}"));
    std::iter::once(date.to_owned())
        .chain(later)
        .find(|name| !folder.join(format!("{name}.csv")).exists())
        .expect("numbers do not end")
}

fn draw(path: &Path) -> ExitCode {
    let folder = path.parent().unwrap_or(Path::new("."));
    match Record::read(path).map_err(Into::into).and_then(|record| charts::draw(&record, folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
