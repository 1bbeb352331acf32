//! Carries out one workload with one contender, for callgrind to count: `.ci/instructions` drives it.
//!
//! ```text
//! instructions list               every case, one a line
//! instructions CASE OPERATIONS    carries out the case so many times
//! ```

use std::process::ExitCode;

use pipewriter_benches::{
    Contender, Workload,
    contender::contenders,
    workload::{Len, WORKLOADS},
};

/// Those whose counts are of interest; the rest takes long under callgrind and says little.
const COUNTED: [&str; 9] = [
    "pipewriter blocking",
    "pipewriter async",
    "pipewriter io::Write",
    "pipewriter AsyncWrite",
    "pipewriter blocking, shared pool",
    "pipewriter async, shared pool",
    "std BufWriter",
    "futures BufWriter",
    "tokio BufWriter",
];

/// Every case. What copies 50,000 bytes counts the machine's `memcpy`, not us.
fn cases() -> impl Iterator<Item = (String, Workload, Box<dyn Contender>)> {
    let wanted = WORKLOADS.into_iter().filter(|workload| match workload.len {
        Len::Hello => workload.name != "many",
        Len::Large => workload.name == "large",
    });
    wanted.flat_map(|workload| {
        let counted = contenders().into_iter().filter(move |contender| {
            let copies = workload.len == Len::Large && contender.name().ends_with("Write");
            COUNTED.contains(&contender.name()) && contender.has(workload.shape) && !copies
        });
        // Commas separate the columns of the limits.
        counted.map(move |contender| {
            (format!("{}: {}", workload.name, contender.name().replace(',', "")), workload, contender)
        })
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["list"] => {
            cases().for_each(|(name, ..)| println!("{name}"));
            ExitCode::SUCCESS
        }
        [case, operations] => {
            let found = cases().find(|(name, ..)| name == case);
            let (Some((_, workload, mut contender)), Ok(operations)) = (found, operations.parse()) else {
                eprintln!("no such case, or no number: {case} {operations}");
                return ExitCode::FAILURE;
            };
            contender.run(&workload, operations);
            assert_eq!(contender.sink().bytes, operations * workload.bytes, "every byte arrives once");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: instructions list | CASE OPERATIONS");
            ExitCode::FAILURE
        }
    }
}
