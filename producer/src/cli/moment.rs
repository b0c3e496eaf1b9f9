//! Times as people read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A length of time, as exact as it matters.
pub fn span(span: Duration) -> String {
    match span.as_secs() {
        0..10 => format!("{:.1} s", span.as_secs_f32()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// How long ago a Unix time was.
pub fn ago(unix_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} ago", span(now.saturating_sub(Duration::from_millis(unix_ms))))
}

/// A Unix time as date and time of day.
pub fn utc(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Days since 1970-01-01 to year, month and day: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
/// Years begin in March there, so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_times_become_dates() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(unix_s * 1000), text);
        }
    }

    #[test]
    fn no_time_is_too_late_to_be_told() {
        assert!(utc(u64::MAX).ends_with(" UTC"));
        assert_eq!(ago(u64::MAX), "0.0 s ago");
    }

    #[test]
    fn spans_are_as_exact_as_it_matters() {
        for (seconds, text) in
            [(0.34, "0.3 s"), (59.9, "59 s"), (150.0, "2 min"), (9_000.0, "2 h"), (864_000.0, "10 days")]
        {
            assert_eq!(span(Duration::from_secs_f64(seconds)), text);
        }
    }
}
