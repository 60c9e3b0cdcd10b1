//! Times and durations as text.

/// Returns a time in milliseconds since 1970 as text: `2026-11-20T09:30:15.000Z`. Such texts sort
/// like the times.
#[must_use]
pub fn utc(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let Date { year, month, day } = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

struct Date {
    year: u64,
    /// From 1 to 12.
    month: u64,
    /// From 1 to 31.
    day: u64,
}

/// Returns the date this many days after 1970-01-01. Internally a year begins in March, so that the
/// leap day is its last day, and years form cycles of 400.
const fn date(days: u64) -> Date {
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + (month <= 2) as u64;
    Date { year, month, day }
}

/// Returns a duration in its two largest units, omitting the second if it is zero.
#[must_use]
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (large, small) = match seconds {
        0..60 => ((seconds, "s"), (0, "")),
        60..3600 => ((seconds / 60, "min"), (seconds % 60, "s")),
        3600..172_800 => ((seconds / 3600, "h"), (seconds % 3600 / 60, "min")),
        _ => ((seconds / 86_400, "d"), (seconds % 86_400 / 3600, "h")),
    };
    match small {
        (0, _) => format!("{} {}", large.0, large.1),
        (number, unit) => format!("{} {} {number} {unit}", large.0, large.1),
    }
}

/// Returns a time limit as text, in milliseconds if it is not a whole number of seconds.
#[must_use]
pub fn time_limit(ms: u64) -> String {
    if ms.is_multiple_of(1000) { duration(ms) } else { format!("{ms} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_follows_the_gregorian_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00.999Z"),
            (951_782_400, "2000-02-29T00:00:00.999Z"),
            (951_868_800, "2000-03-01T00:00:00.999Z"),
            (1_735_689_599, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400, "2100-03-01T00:00:00.999Z"),
        ] {
            assert_eq!(utc(unix_s * 1000 + 999), text);
        }
    }

    #[test]
    fn durations_have_two_units() {
        assert_eq!(duration(250), "0 s");
        assert_eq!(duration(59_999), "59 s");
        assert_eq!(duration(600_000), "10 min");
        assert_eq!(duration(3_599_000), "59 min 59 s");
        assert_eq!(duration(86_400_000), "24 h");
        assert_eq!(duration(180_000_000), "2 d 2 h");
        assert_eq!(time_limit(1500), "1500 ms");
        assert_eq!(time_limit(60_000), "1 min");
    }
}
