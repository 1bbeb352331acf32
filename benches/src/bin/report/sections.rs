//! What a child process measures: one section of the report, in interleaved rounds.

use pipewriter_benches::{
    Contender, Workload,
    clock::nanoseconds,
    contender::contenders,
    growth,
    growth::GROWTHS,
    idle::idle,
    ledger, stats, streams,
    streams::{KINDS, PATTERNS, WRITERS},
    threads,
    workload::WORKLOADS,
};

use crate::record::Record;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Each once, for the bytes; the times mean nothing.
    Quick,
    Full,
}

/// Measures the section of that name.
pub(crate) fn measure(section: &str, build: &str, effort: Effort) -> Option<Record> {
    Some(match section {
        "micro" => micro(build, effort),
        "growth" => grown(build, effort),
        "streams" => streamed(build, effort),
        "memory" => memory(build, effort),
        _ => return None,
    })
}

struct Case {
    workload: Workload,
    contender: Box<dyn Contender>,
    ops: u64,
    times: Vec<f64>,
    allocations: u64,
}

impl Case {
    /// Runs `ops` operations, checks that every byte has arrived, and returns the nanoseconds.
    fn run(&mut self) -> f64 {
        let before = (self.contender.sink().bytes, ledger::allocations());
        let time = nanoseconds(|| self.contender.run(&self.workload, self.ops));
        self.allocations += ledger::allocations() - before.1;
        let arrived = self.contender.sink().bytes - before.0;
        assert_eq!(arrived, self.ops * self.workload.bytes, "{:?}: {}", self.contender, self.workload.name);
        time
    }
}

fn micro(build: &str, effort: Effort) -> Record {
    let (rounds, enough) = if effort == Effort::Quick { (1, 0.0) } else { (31, 5e5) };
    let mut cases = Vec::new();
    for workload in WORKLOADS {
        for contender in contenders().into_iter().filter(|contender| contender.has(workload.shape)) {
            let mut case = Case { workload, contender, ops: 1, times: Vec::new(), allocations: 0 };
            case.run();
            while case.run() < enough {
                case.ops *= 2;
            }
            case.allocations = 0;
            cases.push(case);
        }
    }
    let count = cases.len();
    for round in 0..rounds {
        // Each round begins elsewhere, so that nobody always runs behind the same neighbour.
        for turn in 0..count {
            let case = &mut cases[(turn + round * 7) % count];
            let time = case.run() / case.ops as f64;
            case.times.push(time);
        }
    }
    let mut record = Record::default();
    for Case { workload, contender, ops, times, allocations } in cases {
        let key = |metric| ["micro", build, workload.name, contender.name(), metric];
        record.add(key("ns per operation"), stats::median(&times).median);
        record.add(key("allocations per operation"), allocations as f64 / (ops * rounds as u64) as f64);
    }
    let ops = if effort == Effort::Quick { 100 } else { 100_000 };
    let mut times = threads::POOLS.map(|(pool, name)| (pool, name, Vec::new()));
    for _ in 0..rounds {
        for (pool, _, times) in &mut times {
            times.push(threads::append_and_flush(*pool, ops));
        }
    }
    for (_, name, times) in times {
        record.add(["micro", build, "append on two threads", name, "ns per operation"], stats::median(&times).median);
    }
    record
}

fn grown(build: &str, effort: Effort) -> Record {
    type Line = (&'static growth::Growth, usize, Box<dyn growth::Case>, Vec<f64>);
    let mut cases: Vec<Line> = Vec::new();
    for growth in &GROWTHS {
        for size in growth.sizes() {
            if effort == Effort::Full || size <= 70_000 {
                let mut case = growth.case(size);
                case.once();
                cases.push((growth, size, case, Vec::new()));
            }
        }
    }
    // The clock itself costs more than a flush of few bytes.
    let clock = stats::median(&[(); 1001].map(|()| nanoseconds(|| {}))).median;
    let rounds = if effort == Effort::Quick { 1 } else { 7 };
    for _ in 0..rounds {
        for (_, size, case, times) in &mut cases {
            // Short ones are repeated until the clock can tell; of the long ones one is enough.
            let repeats = if effort == Effort::Quick { 1 } else { (2_usize << 20).div_ceil(*size).min(10_000) };
            let total: f64 = (0..repeats).map(|_| (case.once() - clock).max(0.0)).sum();
            times.push(total / (repeats * *size) as f64);
        }
    }
    let mut record = Record::default();
    for (growth, size, _, times) in cases {
        let metric = format!("ns per {}", growth.per);
        record.add(["growth", build, growth.name, &size.to_string(), &metric], stats::median(&times).median);
    }
    record
}

fn streamed(build: &str, effort: Effort) -> Record {
    let (rounds, total) = if effort == Effort::Quick { (1, 3 << 20) } else { (2, 64 << 20) };
    let mut record = Record::default();
    for (kind, stream) in KINDS {
        for pattern in PATTERNS {
            let case = format!("{stream}: {}", pattern.name);
            let mut found: Vec<_> = WRITERS
                .into_iter()
                .filter(|(writer, _)| streams::has(kind, *writer))
                .map(|(writer, name)| (writer, name, [const { Vec::new() }; 3]))
                .collect();
            for _ in 0..rounds {
                for (writer, _, [speed, cpu, calls]) in &mut found {
                    match streams::send(kind, *writer, &pattern, total) {
                        Ok(sent) => {
                            let mib = sent.bytes as f64 / f64::from(1 << 20);
                            speed.push(mib / sent.time.as_secs_f64());
                            cpu.push(sent.cpu.as_secs_f64() * 1e6 / mib);
                            calls.push(sent.calls as f64);
                        }
                        Err(error) => panic!("{case}: {error}"),
                    }
                }
            }
            for (_, name, values) in found {
                for (metric, values) in ["MiB per s", "CPU us per MiB", "calls"].into_iter().zip(values) {
                    record.add(["streams", build, &case, name, metric], stats::median(&values).median);
                }
            }
        }
    }
    record
}

fn memory(build: &str, effort: Effort) -> Record {
    let mut record = Record::default();
    for found in idle(if effort == Effort::Quick { 1_000 } else { 100_000 }) {
        record.add(["memory", build, "idle writer", found.name, "heap bytes"], found.heap);
        record.add(["memory", build, "idle writer", found.name, "bytes of the type"], found.size as f64);
    }
    record
}
