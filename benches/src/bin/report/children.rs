//! The child processes of a report: several for each section, taking turns, for memory lies elsewhere in each.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{ALIGNED, PLAIN, record::Record};

const MICRO_PROCESSES: usize = 7;
const OTHER_PROCESSES: usize = 3;

/// Measures those sections.
pub(crate) fn run(sections: &[&str]) -> Record {
    let plain = std::env::current_exe().expect("the path of this program");
    let aligned = if sections.contains(&"micro") { build_aligned() } else { None };
    let mut record = Record::default();
    for process in 0..MICRO_PROCESSES {
        for section in sections {
            let wanted = match *section {
                "micro" => MICRO_PROCESSES,
                "growth" | "streams" => OTHER_PROCESSES,
                _ => 1,
            };
            if process >= wanted {
                continue;
            }
            eprintln!("{section}, process {} of {wanted}", process + 1);
            if *section == "dotnet" {
                record.extend(dotnet());
                continue;
            }
            record.extend(child(&plain, section, PLAIN));
            if let (Some(aligned), "micro") = (&aligned, *section) {
                record.extend(child(aligned, section, ALIGNED));
            }
        }
    }
    record
}

fn child(program: &Path, section: &str, build: &str) -> Record {
    let output = Command::new(program).args(["--child", section, build]).output();
    let found = output.ok().filter(|output| output.status.success()).and_then(|output| {
        let csv = String::from_utf8(output.stdout).ok()?;
        Record::from_csv(&csv)
    });
    found.unwrap_or_else(|| panic!("the process that measures {section} has failed: run --only {section}"))
}

/// Builds this program with every block that is jumped to aligned.
fn build_aligned() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO")?;
    if std::env::var_os("RUSTFLAGS").is_some() {
        eprintln!("RUSTFLAGS are set: no build with aligned blocks");
        return None;
    }
    let plain = std::env::current_exe().ok()?;
    let folder = plain.parent()?.parent()?.join("aligned");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "-p", "pipewriter-benches", "--bin", "report", "--config"])
        .arg(r#"build.rustflags=["-Cllvm-args=-align-all-nofallthru-blocks=6"]"#)
        .arg("--target-dir")
        .arg(&folder)
        .status();
    if built.is_ok_and(|status| status.success()) {
        Some(folder.join("release").join("report"))
    } else {
        eprintln!("the build with aligned blocks has failed: left out");
        None
    }
}

/// What .NET says, if there is one: see `benches/dotnet/README.md`.
fn dotnet() -> Record {
    let mut record = Record::default();
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("benches"), PathBuf::from);
    let output = Command::new("sh").arg(manifest.join("dotnet").join("run.sh")).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("no dotnet found: left out (benches/dotnet/README.md says how to get one)");
        return record;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let version = lines.next().unwrap_or(".NET");
    for line in lines {
        let mut fields = line.split(',');
        if let (Some(case), Some(Ok(time)), Some(Ok(bytes))) =
            (fields.next(), fields.next().map(str::parse), fields.next().map(str::parse))
        {
            record.add(["dotnet", version, case, version, "ns per operation"], time);
            record.add(["dotnet", version, case, version, "bytes allocated per operation"], bytes);
        }
    }
    record
}
