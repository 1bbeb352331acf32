//! How the cost of a byte, a segment and a call grows with their number: the throughput is to stay the same.
#![expect(missing_docs, reason = "criterion makes public items without")]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pipewriter_benches::growth::{Axis, GROWTHS};

fn growth(criterion: &mut Criterion) {
    // To fill a writer takes ten thousand times as long as its flush alone: that is left to the report, which has no time to fill.
    for growth in GROWTHS.into_iter().filter(|growth| growth.axis != Axis::FlushOnly) {
        let mut group = criterion.benchmark_group(format!("{} (per {})", growth.name, growth.per));
        group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
        for size in growth.sizes() {
            let mut case = growth.case(size);
            group.throughput(Throughput::Elements(size as u64));
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                bencher.iter_custom(|times| {
                    // The clock runs in the case, which fills its writer outside of it where only the flush is measured.
                    Duration::from_nanos((0..times).map(|_| case.once()).sum::<f64>() as u64)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, growth);
criterion_main!(benches);
