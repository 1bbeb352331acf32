//! The four workloads of the benchmark that came with .NET's `StreamPipeWriter`, for every contender.
#![expect(missing_docs, reason = "criterion makes public items without")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn original(criterion: &mut Criterion) {
    common::measure(criterion, &["hello", "large", "many", "many_large"]);
}

criterion_group!(benches, original);
criterion_main!(benches);
