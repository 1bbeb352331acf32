//! What a piece of work cost: time on the wall and on the processor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time that the calling thread has used.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Nanoseconds that `work`, which never waits, takes of the processor. What others do on the machine meanwhile counts little.
pub fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = thread_time();
    work();
    (thread_time() - start).as_secs_f64() * 1e9
}

/// The day in UTC, as in 2026-02-28.
///
/// # Panics
///
/// If the clock stands before 1970.
#[must_use]
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    date(since.as_secs() / 86_400)
}

fn date(mut days: u64) -> String {
    let mut year = 1970;
    let leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_513, "2026-03-01")] {
            assert_eq!(super::date(days), date);
        }
    }
}
