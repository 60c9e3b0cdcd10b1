//! Moments as people write them: the time of day, and the date unless it is today's.

use chrono::{DateTime, Datelike as _, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

/// Shows a moment in at most six columns: `14:02` today, `Nov 23` this year, `2025` before.
pub(super) fn short(unix_ms: u64) -> String {
    short_in(&Local, Local::now().timestamp_millis(), unix_ms)
}

/// Shows the time of day, with seconds.
pub(super) fn time(unix_ms: u64) -> String {
    let at = local(&Local, signed(unix_ms));
    at.map_or_else(|| "?".to_owned(), |at| at.format("%H:%M:%S").to_string())
}

fn signed(unix_ms: u64) -> i64 {
    i64::try_from(unix_ms).unwrap_or(i64::MAX)
}

fn local<Z: TimeZone>(zone: &Z, unix_ms: i64) -> Option<DateTime<Z>> {
    zone.timestamp_millis_opt(unix_ms).single()
}

fn short_in<Z: TimeZone>(zone: &Z, now_ms: i64, unix_ms: u64) -> String
where
    Z::Offset: std::fmt::Display,
{
    let Some((now, at)) = local(zone, now_ms).zip(local(zone, signed(unix_ms))) else {
        return "?".to_owned();
    };
    let format = match (at.date_naive() == now.date_naive(), at.year() == now.year()) {
        (true, _) => "%H:%M",
        (false, true) => "%b %d",
        (false, false) => "%Y",
    };
    at.format(format).to_string()
}

/// Parses a moment: a time of today (`14:02`, `14:02:31`), a date (`2026-11-23`), both with a blank
/// or a T between them, `today`, or `yesterday`. Returns milliseconds since 1970.
pub(super) fn parse(text: &str) -> Option<u64> {
    parse_in(&Local, &Local::now().naive_local(), text)
}

fn parse_in<Z: TimeZone>(zone: &Z, now: &NaiveDateTime, text: &str) -> Option<u64> {
    let time = |text: &str| {
        let formats = ["%H:%M", "%H:%M:%S"];
        formats.iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok())
    };
    let date = |text: &str| match text {
        "today" => Some(now.date()),
        "yesterday" => now.date().pred_opt(),
        text => NaiveDate::parse_from_str(text, "%Y-%m-%d").ok(),
    };
    let moment = match text.split_once([' ', 'T']) {
        Some((day, hour)) => date(day)?.and_time(time(hour)?),
        None => match date(text) {
            Some(day) => day.and_time(NaiveTime::MIN),
            None => now.date().and_time(time(text)?),
        },
    };
    // When the clock is set back, an hour occurs twice. The first one counts.
    let moment = zone.from_local_datetime(&moment).earliest()?;
    u64::try_from(moment.timestamp_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    const HOUR: i64 = 3_600_000;

    /// 2026-11-24 00:30 in a zone that is an hour ahead.
    const NOW: i64 = 1_795_476_600_000;

    fn zone() -> FixedOffset {
        FixedOffset::east_opt(3600).unwrap()
    }

    #[test]
    fn moments_are_times_today_and_dates_before() {
        let shown = |ms: i64| short_in(&zone(), NOW, u64::try_from(ms).unwrap());
        assert_eq!(shown(NOW), "00:30");
        assert_eq!(shown(NOW - HOUR), "Nov 23");
        assert_eq!(shown(NOW + HOUR), "01:30");
        assert_eq!(shown(NOW - 400 * 24 * HOUR), "2025");
        assert_eq!(short_in(&zone(), NOW, u64::MAX), "?");
    }

    #[test]
    fn moments_are_parsed() {
        let now = local(&zone(), NOW).unwrap().naive_local();
        let parsed = |text| parse_in(&zone(), &now, text).map(u64::cast_signed);
        assert_eq!(parsed("00:30"), Some(NOW));
        assert_eq!(parsed("2026-11-24 00:30:00"), Some(NOW));
        assert_eq!(parsed("2026-11-24T00:30"), Some(NOW));
        assert_eq!(parsed("today"), Some(NOW - HOUR / 2));
        assert_eq!(parsed("yesterday"), Some(NOW - HOUR / 2 - 24 * HOUR));
        assert_eq!(parsed("yesterday 23:30"), Some(NOW - HOUR));
        for wrong in ["", "25:00", "2026-13-01", "tomorrow", "1969-01-01", "12"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
