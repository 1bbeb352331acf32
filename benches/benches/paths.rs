//! The ways through a writer: append, span, many appends and one flush, for every contender.
#![expect(missing_docs, reason = "criterion makes public items without")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn paths(criterion: &mut Criterion) {
    common::measure(criterion, &["append", "append_unknown", "span", "span_large", "batched", "batched_unknown"]);
}

criterion_group!(benches, paths);
criterion_main!(benches);
