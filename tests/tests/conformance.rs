//! Every recorded trace of .NET's writer comes out the same on both of ours, whatever parts the stream takes.

use pipewriter_tests::both;
use pipewriter_tests::conformance::{Player, Taking, TakingStep, play_all, read};

both! {
    over_a_stream_that_takes_all,
    over_a_stream_that_takes_one_byte_a_call,
    over_a_stream_that_takes_seven_bytes_a_call,
    over_a_stream_that_takes_the_first_chunk,
    over_a_stream_that_takes_random_parts,
}

fn over_a_stream_that_takes_all<K: Player>() {
    play::<K>(TakingStep::All);
}

fn over_a_stream_that_takes_one_byte_a_call<K: Player>() {
    play::<K>(TakingStep::AtMost(1));
}

fn over_a_stream_that_takes_seven_bytes_a_call<K: Player>() {
    play::<K>(TakingStep::AtMost(7));
}

fn over_a_stream_that_takes_the_first_chunk<K: Player>() {
    play::<K>(TakingStep::FirstChunk);
}

fn over_a_stream_that_takes_random_parts<K: Player>() {
    play::<K>(TakingStep::Part);
}

/// With a stream that has a vectored write, and with one that has none.
fn play<K: Player>(write: TakingStep) {
    let recording = read(include_str!("../data/dotnet-3.1.json"));
    assert_eq!(recording.traces.len(), 259, "all that was recorded is here");
    for vectored in [true, false] {
        let played = play_all::<K>(&recording, Taking { write, vectored });
        assert_eq!(played, if K::BLOCKING { BLOCKING_TRACES } else { 259 });
    }
}

/// How many of the traces need no flush that is pending.
const BLOCKING_TRACES: usize = 165;
