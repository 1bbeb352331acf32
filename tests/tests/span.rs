//! Chapter 3 of the contract, the producer's side: spans, and what may be committed. Where the memory comes from and goes
//! is in `segment.rs`, what concerns the heap in `alloc.rs`.

use std::io::{ErrorKind, IoSlice};

use pipewriter_std::PipeWriterOptions;
use pipewriter_tests::both;
use pipewriter_tests::model::{Model, Random, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Act, Kind, Subject, assert_refused, place};

both! {
    // 3.1
    a_span_is_never_empty_and_as_long_as_asked_for,
    a_span_asked_for_again_is_the_same_memory_with_what_was_put_there,
    a_hint_beyond_the_rest_of_the_segment_starts_a_new_one_and_the_rest_is_never_sent,
    // 3.2
    the_next_span_begins_right_behind_what_was_advanced_over,
    an_append_goes_right_behind_what_was_advanced_over,
    // 3.4
    advancing_in_several_steps_commits_what_one_step_would,
    advancing_past_the_span_is_refused_and_commits_nothing,
    advancing_without_a_span_is_refused,
    advancing_past_the_most_that_may_be_buffered_is_refused,
    advancing_by_nothing_is_always_fine,
    a_span_ends_with_every_call_that_commits_or_writes,
    a_span_ends_with_every_call_that_is_refused,
    a_refused_span_leaves_the_one_before_as_it_was,
    // 3.5
    a_hint_past_the_most_that_may_be_buffered_is_refused,
    an_append_past_the_most_that_may_be_buffered_is_refused,
    as_much_as_may_be_buffered_can_be,
    what_the_stream_accepted_makes_room_again,
    one_gibibyte_may_be_buffered_by_default,
    a_hint_that_overflows_is_refused,
    // 3.6
    bytes_that_were_not_advanced_over_are_not_data,
}

fn options(segment_size: usize) -> PipeWriterOptions {
    PipeWriterOptions::new().segment_size(segment_size)
}

fn a_span_is_never_empty_and_as_long_as_asked_for<K: Kind>() {
    for segment_size in [1, 2, 16, 4096] {
        for hint in [0, 1, 2, 15, 16, 17, 4096, 4097, 100_000] {
            let script = ScriptHandle::new();
            let mut writer = K::writer(&script, options(segment_size));
            for used in 0..40 {
                let (_, len) = place(&mut writer, hint);
                assert!(len >= hint.max(1), "{len} bytes for a hint of {hint}, segments of {segment_size}");
                writer.advance(used.min(len)).unwrap();
            }
        }
    }
}

fn a_span_asked_for_again_is_the_same_memory_with_what_was_put_there<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64));
    for committed in [0, 10] {
        writer.append(&pattern(0, committed)).unwrap();
        let first = place(&mut writer, 20);
        writer.span_mut(20).unwrap()[..20].copy_from_slice(&pattern(100, 20));
        for hint in [0, 1, 19, 20, 0] {
            assert_eq!(place(&mut writer, hint).0, first.0);
            assert_eq!(writer.span_mut(hint).unwrap()[..20], pattern(100, 20));
        }
        writer.advance(0).unwrap();
        assert_eq!(place(&mut writer, 20), first, "advancing by nothing moves nothing");
    }
}

fn a_hint_beyond_the_rest_of_the_segment_starts_a_new_one_and_the_rest_is_never_sent<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options(16).pool(pool));
    writer.put(b"0123456789");
    writer.span_mut(6).unwrap().fill(b'x');
    assert_eq!(log.taken(), 1, "six bytes are left");
    let (_, len) = place(&mut writer, 7);
    assert_eq!(log.taken(), 2, "seven are not");
    assert!(len >= 16);
    writer.put(b"abcdefg");
    writer.flush_well();
    assert_eq!(script.accepted(), b"0123456789abcdefg");
    assert_eq!(script.calls(), [Call::vectored([10, 7]), Call::Flush]);
}

fn the_next_span_begins_right_behind_what_was_advanced_over<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(4096));
    let (mut begins, mut len) = place(&mut writer, 0);
    let mut model = Model::new();
    for n in [1, 10, 0, 500, 3] {
        let bytes = model.deal(n);
        writer.span_mut(n).unwrap()[..n].copy_from_slice(&bytes);
        writer.advance(n).unwrap();
        model.commit(&bytes);
        let next = place(&mut writer, 1);
        assert_eq!(next, (begins + n, len - n));
        (begins, len) = next;
    }
    writer.flush_well();
    model.check(&script.accepted(), writer.unflushed_bytes());
}

fn an_append_goes_right_behind_what_was_advanced_over<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(4096));
    writer.span_mut(10).unwrap()[..5].copy_from_slice(b"hello");
    writer.advance(5).unwrap();
    writer.append(b" there").unwrap();
    writer.put(b", world");
    writer.flush_well();
    assert_eq!(script.accepted(), b"hello there, world");
    assert_eq!(script.calls(), [Call::write(18), Call::Flush], "all in one segment");
}

fn advancing_in_several_steps_commits_what_one_step_would<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64));
    writer.span_mut(10).unwrap()[..10].copy_from_slice(b"0123456789");
    for (n, committed) in [(4, 4), (0, 4), (5, 9), (1, 10)] {
        writer.advance(n).unwrap();
        assert_eq!(writer.unflushed_bytes(), committed);
    }
    writer.flush_well();
    assert_eq!(script.accepted(), b"0123456789");
}

fn advancing_past_the_span_is_refused_and_commits_nothing<K: Kind>() {
    for already in [0, 3] {
        for beyond in [1, 2, 1000, usize::MAX / 2] {
            let script = ScriptHandle::new();
            let mut writer = K::writer(&script, options(16));
            writer.append(b"ab").unwrap();
            let (_, len) = place(&mut writer, 5);
            writer.advance(already).unwrap();
            assert_refused(writer.advance(len - already + beyond), ErrorKind::InvalidInput);
            assert_eq!(writer.unflushed_bytes(), 2 + already);
        }
    }
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16));
    place(&mut writer, 5);
    assert_refused(writer.advance(usize::MAX), ErrorKind::InvalidInput);
    let (_, len) = place(&mut writer, 5);
    writer.advance(len).unwrap();
    assert_eq!(writer.unflushed_bytes(), len, "to the very end is not past it");
}

fn advancing_without_a_span_is_refused<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16));
    assert_refused(writer.advance(1), ErrorKind::InvalidInput);
    writer.append(b"ab").unwrap();
    assert_refused(writer.advance(1), ErrorKind::InvalidInput);
    assert_eq!(writer.unflushed_bytes(), 2);
}

fn advancing_past_the_most_that_may_be_buffered_is_refused<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64).max_buffered(10));
    writer.append(b"0123").unwrap();
    let (_, len) = place(&mut writer, 6);
    // A span may show more than may be committed, or may not.
    let kind = if len > 6 { ErrorKind::QuotaExceeded } else { ErrorKind::InvalidInput };
    assert_refused(writer.advance(7), kind);
    assert_eq!(writer.unflushed_bytes(), 4);
    writer.put(b"456789");
    assert_eq!(writer.unflushed_bytes(), 10);
    writer.flush_well();
    assert_eq!(script.accepted(), b"0123456789");
}

fn advancing_by_nothing_is_always_fine<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16).max_buffered(4));
    writer.advance(0).unwrap();
    writer.append(b"abcd").unwrap();
    writer.advance(0).unwrap();
    assert_refused(writer.advance(1), ErrorKind::InvalidInput);
    writer.advance(0).unwrap();
    writer.complete().unwrap();
    writer.advance(0).unwrap();
    let mut writer = K::writer(&ScriptHandle::new(), options(16));
    writer.abort().unwrap();
    writer.advance(0).unwrap();
}

/// Expects of each act that it ends the span, and that nothing of the span was committed.
fn expect_span_ended<K: Kind>(acts: &[Act<K::Writer<Script, TestPool>>]) {
    for (name, act) in acts {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, options(64).max_buffered(1000).pool(TestPool::new().0));
        writer.append(b"ab").unwrap();
        writer.span_mut(10).unwrap()[..10].fill(b'?');
        act(&mut writer, &script);
        let before = writer.unflushed_bytes();
        let refused = writer.advance(1).expect_err(name);
        let kind = if writer.is_completed() { ErrorKind::BrokenPipe } else { ErrorKind::InvalidInput };
        assert_eq!(refused.kind(), kind, "{name}: {refused}");
        assert_eq!(writer.unflushed_bytes(), before, "{name}");
        writer.advance(0).expect(name);
        drop(writer.flush());
        assert!(!script.accepted().contains(&b'?'), "{name}: bytes of the span were sent");
    }
}

fn a_span_ends_with_every_call_that_commits_or_writes<K: Kind>() {
    expect_span_ended::<K>(&[
        ("append", |writer, _| writer.append(b"c").unwrap()),
        ("append of nothing", |writer, _| writer.append(b"").unwrap()),
        ("write_and_flush", |writer, _| assert!(writer.write_and_flush(b"c").is_ok())),
        ("write_and_flush of nothing", |writer, _| assert!(writer.write_and_flush(b"").is_ok())),
        ("plain write", |writer, _| assert_eq!(writer.plain_write(b"c").unwrap(), 1)),
        ("plain vectored write", |writer, _| {
            assert_eq!(writer.plain_write_vectored(&[IoSlice::new(b"c"), IoSlice::new(b"d")]).unwrap(), 2);
        }),
        ("flush", |writer, _| writer.flush_well()),
        ("plain flush", |writer, _| writer.plain_flush().unwrap()),
        ("emit", |writer, _| assert!(writer.emit().is_ok())),
        ("flush of nothing", |writer, _| {
            writer.flush_well();
            place(writer, 10);
            writer.flush_well();
        }),
        ("flush that fails", |writer, script| {
            script.on_write([Step::Fail(ErrorKind::Other, "scripted")]);
            assert_refused(writer.flush(), ErrorKind::Other);
        }),
        ("flush that stalls", |writer, script| {
            script.on_write([Step::Pend]);
            assert_refused(writer.flush(), ErrorKind::WouldBlock);
        }),
        ("flush that is canceled", |writer, _| {
            writer.cancel_pending_flush();
            assert!(writer.flush().unwrap().is_canceled());
        }),
        ("complete", |writer, _| writer.complete().unwrap()),
        ("complete that fails", |writer, script| {
            script.on_write([Step::Fail(ErrorKind::Other, "scripted")]);
            assert_refused(writer.complete(), ErrorKind::Other);
        }),
        ("abort", |writer, _| writer.abort().unwrap()),
    ]);
}

fn a_span_ends_with_every_call_that_is_refused<K: Kind>() {
    expect_span_ended::<K>(&[
        ("append", |writer, _| assert_refused(writer.append(&[0; 999]), ErrorKind::QuotaExceeded)),
        ("write_and_flush", |writer, _| assert_refused(writer.write_and_flush(&[0; 999]), ErrorKind::QuotaExceeded)),
        ("advance past the span", |writer, _| assert_refused(writer.advance(5000), ErrorKind::InvalidInput)),
    ]);
}

fn a_refused_span_leaves_the_one_before_as_it_was<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(1);
    let mut writer = K::writer(&script, options(16).max_buffered(100).pool(pool));
    writer.put(b"ab");
    let before = place(&mut writer, 5);
    writer.span_mut(5).unwrap()[..5].copy_from_slice(b"cdefg");
    writer.advance(1).unwrap();
    assert_refused(writer.span_mut(99).map(drop), ErrorKind::QuotaExceeded);
    assert_refused(writer.span_mut(50).map(drop), ErrorKind::OutOfMemory);
    assert!(writer.span_mut(usize::MAX).is_err());
    writer.advance(2).unwrap();
    assert_eq!(place(&mut writer, 1), (before.0 + 3, before.1 - 3));
    writer.advance(2).unwrap();
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcdefg");
}

fn a_hint_past_the_most_that_may_be_buffered_is_refused<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16).max_buffered(100));
    assert_refused(writer.span_mut(101).map(drop), ErrorKind::QuotaExceeded);
    place(&mut writer, 100);
    writer.append(&[1; 60]).unwrap();
    assert_refused(writer.span_mut(41).map(drop), ErrorKind::QuotaExceeded);
    place(&mut writer, 40);
    writer.put(&[2; 40]);
    for hint in [0, 1] {
        assert_refused(writer.span_mut(hint).map(drop), ErrorKind::QuotaExceeded);
    }
    assert_eq!(writer.unflushed_bytes(), 100);
    writer.flush_well();
    place(&mut writer, 100);
}

fn an_append_past_the_most_that_may_be_buffered_is_refused<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16).max_buffered(100));
    assert_refused(writer.append(&[0; 101]), ErrorKind::QuotaExceeded);
    assert_eq!(writer.unflushed_bytes(), 0);
    writer.append(&pattern(0, 60)).unwrap();
    assert_refused(writer.append(&[0; 41]), ErrorKind::QuotaExceeded);
    assert_eq!(writer.unflushed_bytes(), 60);
    writer.append(&pattern(60, 40)).unwrap();
    assert_refused(writer.append(&[0; 1]), ErrorKind::QuotaExceeded);
    writer.append(b"").unwrap();
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 100));
}

fn as_much_as_may_be_buffered_can_be<K: Kind>() {
    // In any mixture of spans and appends, over any segments.
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let most = random.between(1, 300);
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, options(random.between(1, 100)).max_buffered(most));
        let mut model = Model::new();
        while model.committed().len() < most {
            let left = most - model.committed().len();
            let bytes = model.deal(random.between(1, left));
            if random.one_in(2) {
                writer.append(&bytes).unwrap();
            } else {
                writer.put(&bytes);
            }
            model.commit(&bytes);
        }
        assert_refused(writer.append(b"x"), ErrorKind::QuotaExceeded);
        assert_eq!(writer.unflushed_bytes(), most);
        writer.flush_well();
        model.check(&script.accepted(), 0);
    }
}

fn what_the_stream_accepted_makes_room_again<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16).max_buffered(100));
    writer.append(&pattern(0, 100)).unwrap();
    script.on_write([Step::Take(30), Step::Pend]);
    assert_refused(writer.flush(), ErrorKind::WouldBlock);
    assert_eq!(writer.unflushed_bytes(), 70);
    assert_refused(writer.append(&[0; 31]), ErrorKind::QuotaExceeded);
    writer.put(&pattern(100, 30));
    assert_refused(writer.span_mut(1).map(drop), ErrorKind::QuotaExceeded);
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 130));
}

fn one_gibibyte_may_be_buffered_by_default<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    assert_refused(writer.span_mut((1 << 30) + 1).map(drop), ErrorKind::QuotaExceeded);
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(0);
    let mut writer = K::writer(&script, PipeWriterOptions::new().pool(pool));
    assert_refused(writer.span_mut(1 << 30).map(drop), ErrorKind::OutOfMemory);
    assert!(log.asked()[0] >= 1 << 30, "the limit let it pass, only the pool did not");
}

fn a_hint_that_overflows_is_refused<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(16).max_buffered(usize::MAX));
    for committed in [0, 5] {
        for hint in [usize::MAX, usize::MAX - 3, isize::MAX as usize + 1] {
            assert_refused(writer.span_mut(hint).map(drop), ErrorKind::InvalidInput);
        }
        // Where addresses have 32 bits, half of them may be had.
        if cfg!(target_pointer_width = "64") {
            let refused = writer.span_mut(isize::MAX as usize - 10).map(drop).unwrap_err().kind();
            assert!(matches!(refused, ErrorKind::InvalidInput | ErrorKind::OutOfMemory), "{refused:?}");
        }
        assert_eq!(writer.unflushed_bytes(), committed);
        writer.append(b"hello").unwrap();
    }
    writer.flush_well();
    assert_eq!(script.accepted(), b"hellohello");
}

fn bytes_that_were_not_advanced_over_are_not_data<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64));
    let span = writer.span_mut(20).unwrap();
    span.fill(b'?');
    span[..4].copy_from_slice(b"data");
    writer.advance(4).unwrap();
    assert_eq!(writer.unflushed_bytes(), 4);
    writer.flush_well();
    writer.span_mut(20).unwrap().fill(b'?');
    writer.flush_well();
    writer.span_mut(20).unwrap().fill(b'?');
    writer.append(b" more").unwrap();
    writer.span_mut(20).unwrap().fill(b'?');
    writer.complete().unwrap();
    assert_eq!(script.accepted(), b"data more");
    let mut writer = K::writer(&ScriptHandle::new(), options(64));
    writer.append(b"ab").unwrap();
    writer.span_mut(20).unwrap().fill(b'?');
    assert_eq!(writer.into_parts().1, b"ab");
}
