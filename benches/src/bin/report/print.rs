//! The tables of a report, and what it says of the machine.

use std::{fmt::Write as _, process::Command};

use pipewriter_benches::{contender::contenders, growth::GROWTHS, streams::WRITERS, threads, workload::WORKLOADS};

use crate::{ALIGNED, PLAIN, record::Record};

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

fn field(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map(|value| value.trim_start_matches([':', ' ', '\t']).to_owned()).unwrap_or_default()
}

/// The target that this compiler builds for.
pub(crate) fn target() -> String {
    field(&output("rustc", &["-vV"]), "host")
}

/// Machine, compiler, commit and versions of what is compared.
pub(crate) fn about() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let rustc = output("rustc", &["-vV"]);
    let mut about = String::new();
    for (name, value) in [
        ("command", "cargo run --release -p pipewriter-benches --bin report".to_owned()),
        ("commit", output("git", &["describe", "--always", "--dirty", "--tags"])),
        ("compiler", format!("{}, LLVM {}", rustc.lines().next().unwrap_or_default(), field(&rustc, "LLVM version"))),
        ("target", field(&rustc, "host")),
        ("processor", field(&cpu, "model name")),
        ("processors", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("system", output("uname", &["-sm"])),
    ] {
        let _ = writeln!(about, "{name}: {value}");
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let tree = output(
        &cargo,
        &["tree", "--offline", "-p", "pipewriter-benches", "-e", "normal", "--depth", "1", "--prefix", "none"],
    );
    let peers = ["async-std", "futures-util", "linkedbytes", "tokio", "tokio-util"];
    let versions = tree.lines().filter(|line| line.split(' ').next().is_some_and(|name| peers.contains(&name)));
    let _ = writeln!(about, "peers: {}", versions.collect::<Vec<_>>().join(", "));
    about
}

fn number(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 0.1 || value == 0.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// Every section as a table.
pub(crate) fn tables(record: &Record) -> String {
    let mut text = String::new();
    for build in [PLAIN, ALIGNED] {
        micro(record, build, &mut text);
    }
    streams(record, &mut text);
    growth(record, &mut text);
    memory(record, &mut text);
    text
}

fn micro(record: &Record, build: &str, text: &mut String) {
    if !record.of_group("micro").any(|row| row.key.build == build) {
        return;
    }
    let dotnet = record.of_group("dotnet").next().map(|row| row.key.contender.clone());
    let mut header: Vec<String> = WORKLOADS.iter().map(|workload| workload.name.to_owned()).collect();
    let _ = writeln!(text, "ns per operation, {build} build (allocations per operation where there are any)\n");
    header.insert(0, "contender".into());
    let _ = writeln!(text, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    for contender in contenders() {
        let cells = WORKLOADS.iter().map(|workload| {
            let key = |metric| ["micro", build, workload.name, contender.name(), metric];
            let time = record.get(key("ns per operation")).map_or_else(String::new, |time| number(time.median));
            match record.get(key("allocations per operation")) {
                Some(count) if count.median > 0.0 => format!("{time} ({})", number(count.median)),
                _ => time,
            }
        });
        let _ = writeln!(text, "| {} | {} |", contender.name(), cells.collect::<Vec<_>>().join(" | "));
    }
    if let Some(version) = dotnet {
        let cells = WORKLOADS.iter().map(|workload| {
            let key = ["dotnet", &version, workload.name, &version, "ns per operation"];
            record.get(key).map_or_else(String::new, |time| number(time.median))
        });
        let _ = writeln!(text, "| {version} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    let threads = threads::POOLS.iter().filter_map(|(_, name)| {
        let time = record.get(["micro", build, "append on two threads", name, "ns per operation"])?;
        Some(format!("{name} {}", number(time.median)))
    });
    let threads = threads.collect::<Vec<_>>().join("; ");
    let _ = writeln!(text, "\nappend(11) + flush on two threads at once, ns of each: {threads}\n");
}

fn streams(record: &Record, text: &mut String) {
    let mut cases: Vec<&str> = record.of_group("streams").map(|row| row.key.case.as_str()).collect();
    cases.dedup();
    if cases.is_empty() {
        return;
    }
    let _ = writeln!(text, "64 MiB: MiB per second / calls to the stream / processor time of the writer, µs per MiB\n");
    let names: Vec<&str> = WRITERS.iter().map(|(_, name)| *name).collect();
    let _ = writeln!(text, "| stream: what is sent | {} |\n|{}", names.join(" | "), "---|".repeat(names.len() + 1));
    for case in cases {
        let cells = names.iter().map(|name| {
            let get = |metric| record.get(["streams", PLAIN, case, name, metric]);
            match (get("MiB per s"), get("calls"), get("CPU us per MiB")) {
                (Some(speed), Some(calls), Some(cpu)) => {
                    format!("{} / {:.0} / {}", number(speed.median), calls.median, number(cpu.median))
                }
                _ => String::new(),
            }
        });
        let _ = writeln!(text, "| {case} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text.push('\n');
}

fn growth(record: &Record, text: &mut String) {
    if record.of_group("growth").next().is_none() {
        return;
    }
    let _ = writeln!(text, "Growth: how many, and ns for each\n\n| | |\n|---|---|");
    for growth in GROWTHS {
        let metric = format!("ns per {}", growth.per);
        let cells = growth.sizes().into_iter().filter_map(|size| {
            let time = record.get(["growth", PLAIN, growth.name, &size.to_string(), &metric])?;
            Some(format!("{size}: {}", number(time.median)))
        });
        let _ = writeln!(text, "| {}, per {} | {} |", growth.name, growth.per, cells.collect::<Vec<_>>().join(", "));
    }
    text.push('\n');
}

fn memory(record: &Record, text: &mut String) {
    let mut names: Vec<&str> = record.of_group("memory").map(|row| row.key.contender.as_str()).collect();
    names.dedup();
    if names.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "100,000 idle writers that have sent 1 KiB\n\n| | heap bytes for each | bytes of the type |\n|---|---|---|"
    );
    for name in names {
        let get =
            |metric| record.get(["memory", PLAIN, "idle writer", name, metric]).map_or(f64::NAN, |found| found.median);
        let _ = writeln!(text, "| {name} | {:.0} | {:.0} |", get("heap bytes"), get("bytes of the type"));
    }
    text.push('\n');
}
