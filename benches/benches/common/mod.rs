//! What the benchmarks of the workloads share.

use std::time::Instant;

use criterion::{Criterion, Throughput};
use pipewriter_benches::{contender::contenders, workload::workload};

/// Measures the workloads of those names with everyone who has them. Each sample checks how many bytes have arrived.
pub(crate) fn measure(criterion: &mut Criterion, names: &[&str]) {
    for name in names {
        let workload = workload(name);
        let mut group = criterion.benchmark_group(workload.name);
        group.throughput(Throughput::Bytes(workload.bytes));
        for mut contender in contenders().into_iter().filter(|contender| contender.has(workload.shape)) {
            group.bench_function(contender.name(), |bencher| {
                bencher.iter_custom(|ops| {
                    let before = contender.sink().bytes;
                    let start = Instant::now();
                    contender.run(&workload, ops);
                    let time = start.elapsed();
                    assert_eq!(contender.sink().bytes - before, ops * workload.bytes, "every byte arrives once");
                    time
                });
            });
        }
        group.finish();
    }
}
