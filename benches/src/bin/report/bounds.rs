//! The bounds that the project has set itself, and whether they hold.

use std::fmt::Write as _;

use pipewriter_benches::{
    contender::contenders,
    growth::{Axis, GROWTHS, Growth},
    stats::Spread,
    streams::WRITERS,
    workload::WORKLOADS,
};

use crate::{ALIGNED, PLAIN, record::Record};

enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

struct Bound {
    what: String,
    /// In the build as users make it, and in the one with aligned blocks.
    found: [Option<Spread>; 2],
    limit: Limit,
    /// Which of the two counts.
    counts: usize,
}

const NS: &str = "ns per operation";
const OURS: &str = "pipewriter blocking";
const OURS_ASYNC: &str = "pipewriter async";

/// The table of bounds, and how many of them do not hold.
pub(crate) fn table(record: &Record) -> (String, usize) {
    let bounds = bounds(record);
    let mut table = String::from("| bound | plain build | aligned blocks | | holds |\n|---|---|---|---|---|\n");
    let mut broken = 0;
    for Bound { what, found, limit, counts } in bounds {
        let (limit, holds): (_, fn(f64, f64) -> bool) = match &limit {
            Limit::AtMost(limit) => (("≤", *limit), |value, limit| value <= limit),
            Limit::AtLeast(limit) => (("≥", *limit), |value, limit| value >= limit),
        };
        let verdict = match found[counts].or(found[0]) {
            None => "not measured",
            Some(value) if holds(value.median, limit.1) => "yes",
            Some(_) => {
                broken += 1;
                "**no**"
            }
        };
        let shown = found.map(|found| found.map_or_else(|| "–".to_owned(), show));
        let _ = writeln!(table, "| {what} | {} | {} | {} {} | {verdict} |", shown[0], shown[1], limit.0, limit.1);
    }
    (table, broken)
}

fn show(Spread { median, low, high }: Spread) -> String {
    let digits = if median >= 100.0 { 0 } else { 2 };
    if low.to_bits() == high.to_bits() {
        format!("{median:.digits$}")
    } else {
        format!("{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

fn bounds(record: &Record) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let micro = |case: &str, one: &str, other: &str| {
        [PLAIN, ALIGNED].map(|build| record.ratio(["micro", build, case, one, NS], ["micro", build, case, other, NS]))
    };
    let peers = [(OURS, "std BufWriter"), (OURS_ASYNC, "futures BufWriter")];
    for (case, title, limit) in [
        ("append", "append(11) + flush", 0.75),
        ("hello", "write_and_flush(11)", 0.6),
        ("large", "write_and_flush(50,000)", 0.6),
    ] {
        for (ours, peer) in peers {
            bounds.push(Bound {
                what: format!("{title}: {ours} / {peer}"),
                found: micro(case, ours, peer),
                limit: Limit::AtMost(limit),
                counts: 0,
            });
        }
    }
    for (ours, peer) in
        [peers[0], peers[1], ("pipewriter io::Write", peers[0].1), ("pipewriter AsyncWrite", peers[1].1)]
    {
        bounds.push(Bound {
            what: format!("1,000 appends + flush: {ours} / {peer}"),
            found: micro("batched", ours, peer),
            limit: Limit::AtMost(1.0),
            counts: 1,
        });
    }
    for ours in [OURS, OURS_ASYNC] {
        bounds.push(Bound {
            what: format!("span(50,000) + flush: {ours} / memcpy and a call"),
            found: micro("span_large", ours, "limit (copy + call)"),
            limit: Limit::AtMost(1.05),
            counts: 0,
        });
    }
    for (case, ours) in [("append", OURS), ("append", OURS_ASYNC), ("append on two threads", OURS)] {
        let shared = format!("{ours}, shared pool");
        bounds.push(Bound {
            what: format!("{}: {shared} / own pool", case.replace("append", "append(11) + flush")),
            found: micro(case, &shared, ours),
            limit: Limit::AtMost(2.0),
            counts: 0,
        });
    }
    dotnet(record, &mut bounds);
    streams(record, &mut bounds);
    let allocations = WORKLOADS.iter().flat_map(|workload| {
        contenders().into_iter().filter(|contender| contender.name().starts_with("pipewriter")).filter_map(
            |contender| record.get(["micro", PLAIN, workload.name, contender.name(), "allocations per operation"]),
        )
    });
    let worst = allocations.reduce(|one, other| if one.high >= other.high { one } else { other });
    bounds.push(Bound {
        what: "allocations per operation, every workload, own and shared pool".into(),
        found: [worst, None],
        limit: Limit::AtMost(0.0),
        counts: 0,
    });
    let idle = |contender, metric| [record.get(["memory", PLAIN, "idle writer", contender, metric]), None];
    bounds.push(Bound {
        what: "heap of an idle writer with a shared pool, bytes".into(),
        found: idle("pipewriter, shared pool", "heap bytes"),
        limit: Limit::AtMost(0.0),
        counts: 0,
    });
    for contender in ["pipewriter, own pool", "pipewriter async, own pool", "pipewriter, shared pool"] {
        bounds.push(Bound {
            what: format!("size of the type, bytes: {contender}"),
            found: idle(contender, "bytes of the type"),
            limit: Limit::AtMost(208.0),
            counts: 0,
        });
    }
    grown(record, &mut bounds);
    bounds
}

fn dotnet(record: &Record, bounds: &mut Vec<Bound>) {
    for (case, title, limit) in [
        ("hello", "WriteAsync(11)", 40.0),
        ("large", "WriteAsync(50,000)", 800.0),
        ("batched", "1,000 writes + flush", 5.0),
    ] {
        for ours in [OURS, OURS_ASYNC] {
            let ours_key = ["micro", PLAIN, case, ours, NS];
            let theirs = record.rows.iter().find(|row| row.key.group == "dotnet" && row.key.case == case);
            let found = theirs.zip(record.get(ours_key)).map(|(row, ours)| {
                let theirs = pipewriter_benches::stats::median(&row.values).median;
                let ratio = theirs / ours.median;
                Spread { median: ratio, low: ratio, high: ratio }
            });
            bounds.push(Bound {
                what: format!("{title}: .NET / {ours}"),
                found: [found, None],
                limit: Limit::AtLeast(limit),
                counts: 0,
            });
        }
    }
}

fn speed<'a>(case: &'a str, contender: &'a str) -> [&'a str; 5] {
    ["streams", PLAIN, case, contender, "MiB per s"]
}

fn streams(record: &Record, bounds: &mut Vec<Bound>) {
    for stream in ["TCP loopback", "Unix socket"] {
        let case = format!("{stream}: 100-byte records, flush per MiB");
        let case = case.as_str();
        for (ours, face, peer) in
            [(OURS, "io::Write", "std BufWriter"), (OURS_ASYNC, "AsyncWrite", "futures BufWriter")]
        {
            let smallest = format!("{peer}, 8 KiB");
            let best = WRITERS
                .into_iter()
                .map(|(_, name)| name)
                .filter(|name| name.starts_with(peer))
                .filter_map(|name| record.get(speed(case, name)).map(|speed| (name, speed.median)))
                .max_by(|one, other| one.1.total_cmp(&other.1));
            // With the default pool; with one that keeps all that a flush needs; and in the way of a large `BufWriter`, which
            // writes whenever its buffer is full.
            for ours in [ours.to_owned(), format!("{ours}, 2 MiB kept"), format!("{ours}, {face} of 256 KiB")] {
                let ours = ours.as_str();
                bounds.push(Bound {
                    what: format!("100-byte records to {stream}, throughput: {ours} / best {peer}"),
                    found: [best.and_then(|(name, _)| record.ratio(speed(case, ours), speed(case, name))), None],
                    limit: Limit::AtLeast(1.0),
                    counts: 0,
                });
                bounds.push(Bound {
                    what: format!("100-byte records to {stream}, throughput: {ours} / {peer}, 8 KiB"),
                    found: [record.ratio(speed(case, ours), speed(case, &smallest)), None],
                    limit: Limit::AtLeast(2.0),
                    counts: 0,
                });
            }
        }
    }
}

fn grown(record: &Record, bounds: &mut Vec<Bound>) {
    let growth = |axis: Axis| GROWTHS.iter().find(|growth| growth.axis == axis);
    let ratio = |growth: &Growth| {
        let metric = format!("ns per {}", growth.per);
        let (most, from) = (growth.most.to_string(), growth.flat_from.to_string());
        let key = |size| ["growth", PLAIN, growth.name, size, metric.as_str()];
        record.ratio(key(&most), key(&from))
    };
    let limit = growth(Axis::BytesLimit).and_then(ratio);
    for growth in GROWTHS.iter().filter(|growth| growth.axis != Axis::BytesLimit) {
        let mut what = format!("{}: time per {} at {} / at {}", growth.name, growth.per, growth.most, growth.flat_from);
        let mut found = ratio(growth);
        // Of large memory a copy alone takes longer for each byte than of a cache: only what grows faster than that is ours.
        if let (Axis::Bytes | Axis::BytesKept, Some(limit)) = (growth.axis, limit) {
            let _ = write!(what, ", against the same of a bare copy ({:.2})", limit.median);
            found = found.map(|Spread { median, low, high }| {
                let [median, low, high] = [median, low, high].map(|value| value / limit.median);
                Spread { median, low, high }
            });
        }
        bounds.push(Bound { what, found: [found, None], limit: Limit::AtMost(1.2), counts: 0 });
    }
    bounds.push(Bound {
        what: "flush of 64 MiB to a stream that touches no byte: async, which yields every 4 MiB / blocking, which never does"
            .into(),
        found: [
            record.ratio(
                ["growth", PLAIN, "flush alone, async", "67108864", "ns per byte"],
                ["growth", PLAIN, "flush alone", "67108864", "ns per byte"],
            ),
            None,
        ],
        limit: Limit::AtMost(1.5),
        counts: 0,
    });
    bounds.push(Bound {
        what: "time per call: 1-byte short writes / whole segments".into(),
        found: [
            record.ratio(
                ["growth", PLAIN, "1-byte short writes", "65536", "ns per call"],
                ["growth", PLAIN, "only the first chunk taken", "1000", "ns per call"],
            ),
            None,
        ],
        limit: Limit::AtMost(1.2),
        counts: 0,
    });
}
