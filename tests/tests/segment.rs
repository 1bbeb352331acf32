//! Chapter 3 of the contract, the memory: where segments come from, and when they go back. The heap's own share of it is
//! in `alloc.rs`.

use std::io::ErrorKind;

use pipewriter_std::{PipeWriterOptions, SegmentPool};
use pipewriter_tests::both;
use pipewriter_tests::model::{Model, Random, pattern};
use pipewriter_tests::pools::{SharedPool, TestPool};
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Act, Kind, Subject, assert_refused, place};

both! {
    // 3.3
    a_new_segment_has_the_segment_size_and_the_hint_at_least,
    a_longer_segment_than_asked_for_is_used_to_its_end,
    // 3.5
    a_segment_that_the_pool_refuses_is_out_of_memory,
    a_segment_shorter_than_asked_for_counts_as_refused,
    a_refused_append_commits_nothing_whichever_of_its_segments_was_refused,
    // 3.6
    a_pool_can_clear_what_comes_back,
    // 3.7
    segments_go_back_as_soon_as_the_stream_has_their_bytes,
    an_idle_writer_holds_no_segment_of_a_shared_pool,
    a_flush_of_nothing_gives_back_an_unused_span,
    a_segment_that_was_left_for_a_larger_one_with_nothing_in_it_goes_back_at_once,
    dropping_completing_aborting_and_taking_apart_gives_every_segment_back,
    many_writers_on_one_pool_keep_their_bytes_apart,
}

fn options(segment_size: usize) -> PipeWriterOptions {
    PipeWriterOptions::new().segment_size(segment_size)
}

fn a_new_segment_has_the_segment_size_and_the_hint_at_least<K: Kind>() {
    for segment_size in [1, 100, 4096] {
        let script = ScriptHandle::new();
        let (pool, log) = TestPool::new();
        let mut writer = K::writer(&script, options(segment_size).pool(pool));
        for hint in [0, 1, segment_size, segment_size + 1, 10 * segment_size] {
            let before = log.taken();
            let (_, len) = place(&mut writer, hint);
            if log.taken() > before {
                let least = segment_size.max(hint);
                assert!(log.asked().pop().unwrap() >= least);
                assert!(len >= least, "{len} bytes for a hint of {hint}, segments of {segment_size}");
            }
            writer.advance(len).unwrap();
        }
        let before = log.taken();
        writer.append(b"x").unwrap();
        assert_eq!(log.taken(), before + 1);
        assert!(log.asked().pop().unwrap() >= segment_size, "a small append, too, begins a whole segment");
    }
    let script = ScriptHandle::new();
    assert!(place(&mut K::writer(&script, PipeWriterOptions::new()), 0).1 >= 4096, "4,096 bytes by default");
}

fn a_longer_segment_than_asked_for_is_used_to_its_end<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    log.add_to_each(84);
    let mut writer = K::writer(&script, options(16).pool(pool));
    writer.append(&pattern(0, 60)).unwrap();
    assert_eq!(place(&mut writer, 0).1, 40);
    writer.put(&pattern(60, 40));
    assert_eq!(log.taken(), 1);
    writer.append(&pattern(100, 1)).unwrap();
    assert_eq!(log.taken(), 2);
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 101));
}

fn a_segment_that_the_pool_refuses_is_out_of_memory<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    log.refuse_take(0);
    log.refuse_take(1);
    let mut writer = K::writer(&script, options(16).pool(pool));
    assert_refused(writer.span_mut(1).map(drop), ErrorKind::OutOfMemory);
    assert_refused(writer.append(b"x"), ErrorKind::OutOfMemory);
    assert_eq!(writer.unflushed_bytes(), 0);
    writer.append(b"and on").unwrap();
    writer.flush_well();
    assert_eq!(script.accepted(), b"and on");
    drop(writer);
    log.assert_all_back();
}

fn a_segment_shorter_than_asked_for_counts_as_refused<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    log.shorten_take(0);
    log.shorten_take(2);
    let mut writer = K::writer(&script, options(16).pool(pool));
    assert_refused(writer.span_mut(20).map(drop), ErrorKind::OutOfMemory);
    assert_eq!(log.held(), 0, "what was too short is given back");
    writer.append(b"abc").unwrap();
    assert_refused(writer.span_mut(20).map(drop), ErrorKind::OutOfMemory);
    assert_eq!(log.held(), 1);
    writer.put(&pattern(0, 20));
    writer.flush_well();
    assert_eq!(script.accepted(), [b"abc", &pattern(0, 20)[..]].concat());
    log.assert_all_back();
}

fn a_refused_append_commits_nothing_whichever_of_its_segments_was_refused<K: Kind>() {
    // With nothing buffered, with a part of a segment, with some accepted, with whole segments.
    for (buffered, accepted) in [(0, 0), (5, 0), (5, 3), (16, 0), (16, 16), (50, 0), (50, 20)] {
        for (refusal, shorten) in (0..5).flat_map(|refusal| [(refusal, false), (refusal, true)]) {
            let script = ScriptHandle::new();
            let (pool, log) = TestPool::new();
            let mut writer = K::writer(&script, options(16).pool(pool));
            writer.append(&pattern(0, buffered)).unwrap();
            if accepted > 0 {
                script.on_write([Step::Take(accepted)]);
                if accepted < buffered {
                    script.on_write([Step::Pend]);
                }
                drop(writer.flush());
                assert_eq!(script.accepted_len(), accepted);
            }
            let (held, taken) = (log.held(), log.asked().len());
            if shorten {
                log.shorten_take(taken + refusal)
            } else {
                log.refuse_take(taken + refusal)
            }
            let what = format!("{buffered} buffered, {accepted} accepted, take {refusal} refused");
            assert_refused(writer.append(&[b'?'; 100]), ErrorKind::OutOfMemory);
            assert_eq!(writer.unflushed_bytes(), buffered - accepted, "{what}");
            assert!(log.held() <= held.max(1), "{what}: {} segments held, {held} before", log.held());
            writer.append(&pattern(buffered, 100)).expect(&what);
            writer.flush_well();
            assert_eq!(script.accepted(), pattern(0, buffered + 100), "{what}");
            drop(writer);
            log.assert_all_back();
        }
    }
}

/// A pool of one segment that wipes it when it comes back.
struct Wiping(Option<Vec<u8>>);

impl SegmentPool for Wiping {
    type Segment = Vec<u8>;

    fn take(&mut self, min_len: usize) -> Option<Vec<u8>> {
        self.0.take().filter(|segment| segment.len() >= min_len)
    }

    fn give(&mut self, mut segment: Vec<u8>) {
        segment.fill(0);
        self.0 = Some(segment);
    }
}

fn a_pool_can_clear_what_comes_back<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64).pool(Wiping(Some(vec![0; 64]))));
    for _ in 0..3 {
        assert_eq!(writer.span_mut(64).unwrap(), [0; 64]);
        writer.put(b"secret");
        writer.flush_well();
        writer.span_mut(64).unwrap().fill(b'?');
        writer.flush_well();
    }
}

fn segments_go_back_as_soon_as_the_stream_has_their_bytes<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options(10).pool(pool));
    writer.append(&pattern(0, 50)).unwrap();
    assert_eq!(log.held(), 5);
    // What is held when the stream is called is what its former calls have left.
    let steps = [(9, 5), (1, 5), (15, 4), (5, 3), (20, 2)].map(|(takes, held)| {
        let log = log.clone();
        Step::run(move || assert_eq!(log.held(), held), Step::Take(takes))
    });
    script.on_write(steps);
    let flushed = log.clone();
    script.on_flush([Step::run(move || assert_eq!(flushed.held(), 0), Step::TakeAll)]);
    writer.flush_well();
    script.assert_played();
    assert_eq!(script.accepted(), pattern(0, 50));
    log.assert_all_back();

    // The same where the stream stalls in between.
    writer.append(&pattern(0, 50)).unwrap();
    script.on_write([Step::Take(25), Step::Pend]);
    assert_refused(writer.flush(), ErrorKind::WouldBlock);
    assert_eq!(log.held(), 3);
}

fn an_idle_writer_holds_no_segment_of_a_shared_pool<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options(16).pool(pool));
    assert!(log.asked().is_empty(), "a new writer takes none");
    let bytes = pattern(0, 100);
    let uses: [Act<K::Writer<Script, TestPool>>; 5] = [
        ("append", |writer, _| writer.append(&[1; 5]).unwrap()),
        ("large append", |writer, _| writer.append(&[1; 500]).unwrap()),
        ("span", |writer, _| writer.put(b"abc")),
        ("plain write", |writer, _| assert_eq!(writer.plain_write(b"abc").unwrap(), 3)),
        ("unused span", |writer, _| assert!(writer.span_mut(100).is_ok())),
    ];
    for (name, act) in uses {
        act(&mut writer, &script);
        assert!(log.held() > 0, "{name}");
        writer.flush_well();
        assert_eq!(log.held(), 0, "{name}");
    }
    let taken = log.taken();
    writer.write_and_flush(&bytes).unwrap();
    assert_eq!((log.taken(), log.held()), (taken, 0), "what goes straight through needs no segment");
    // An emit, too, leaves the writer with nothing buffered.
    writer.append(b"abc").unwrap();
    writer.emit().unwrap();
    assert_eq!(log.held(), 0);
    log.assert_all_back();
}

fn a_flush_of_nothing_gives_back_an_unused_span<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options(16).pool(pool));
    place(&mut writer, 100);
    assert_eq!(log.held(), 1);
    writer.flush_well();
    log.assert_all_back();
    assert!(script.calls().is_empty());
    place(&mut writer, 100);
    writer.cancel_pending_flush();
    assert!(writer.flush().unwrap().is_canceled());
    writer.flush_well();
    log.assert_all_back();
}

fn a_segment_that_was_left_for_a_larger_one_with_nothing_in_it_goes_back_at_once<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options(16).pool(pool));
    place(&mut writer, 16);
    place(&mut writer, 100);
    place(&mut writer, 1000);
    assert_eq!((log.taken(), log.held()), (3, 1));
    writer.put(b"abc");
    writer.flush_well();
    assert_eq!(script.calls(), [Call::write(3), Call::Flush]);
    log.assert_all_back();
}

fn dropping_completing_aborting_and_taking_apart_gives_every_segment_back<K: Kind>() {
    let begin = || {
        let script = ScriptHandle::new();
        let (pool, log) = TestPool::new();
        let mut writer = K::writer(&script, options(16).pool(pool));
        writer.append(&pattern(0, 100)).unwrap();
        script.on_write([Step::Take(20), Step::Pend]);
        assert_refused(writer.flush(), ErrorKind::WouldBlock);
        writer.span_mut(200).unwrap();
        assert!(log.held() > 3);
        (writer, log, script)
    };
    let (writer, log, _script) = begin();
    drop(writer);
    log.assert_all_back();
    let (mut writer, log, script) = begin();
    writer.complete().unwrap();
    log.assert_all_back();
    assert_eq!(script.accepted(), pattern(0, 100));
    let (mut writer, log, script) = begin();
    writer.abort().unwrap();
    log.assert_all_back();
    assert_eq!(script.accepted(), pattern(0, 20));
    let (mut writer, log, _script) = begin();
    writer.abort_with(ErrorKind::Other.into()).unwrap();
    log.assert_all_back();
    let (writer, log, _script) = begin();
    let (_stream, rest) = writer.into_parts();
    log.assert_all_back();
    assert_eq!(rest, pattern(20, 80));
}

fn many_writers_on_one_pool_keep_their_bytes_apart<K: Kind>() {
    let pool = SharedPool::new();
    let scripts: Vec<_> = (0..5).map(|_| ScriptHandle::new()).collect();
    let mut writers: Vec<_> = scripts.iter().map(|script| K::writer(script, options(16).pool(pool.clone()))).collect();
    let mut models = vec![Model::new(); writers.len()];
    let mut random = Random::new(5);
    for _ in 0..2000 {
        let which = random.below(writers.len());
        let (writer, model) = (&mut writers[which], &mut models[which]);
        match random.below(3) {
            0 => writer.flush_well(),
            put => {
                // Not what another writer has, so that a mixture is seen.
                let bytes: Vec<u8> =
                    model.deal(random.between(1, 40)).iter().map(|byte| byte.wrapping_add(which as u8)).collect();
                if put == 1 {
                    writer.put(&bytes)
                } else {
                    writer.append(&bytes).unwrap()
                }
                model.commit(&bytes);
            }
        }
        models[which].check(&scripts[which].accepted(), writers[which].unflushed_bytes());
    }
    writers.iter_mut().for_each(Subject::flush_well);
    let all = pool.free();
    for (which, script) in scripts.iter().enumerate() {
        models[which].check(&script.accepted(), 0);
    }
    drop(writers);
    assert_eq!(pool.free(), all, "idle writers held none");
}
