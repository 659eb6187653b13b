//! Durations as Prometheus writes them: `15s`, `1m`, `1m30s`, `500ms`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What `--sample.interval` may be. Below, reading costs more than it tells;
/// above, a ratio is older than the alert that uses it.
const ALLOWED: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// A duration within the allowed range.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let duration =
        duration(text).ok_or("expected a duration such as 15s, 1m or 1m30s (units: ms, s, m, h)")?;
    if !ALLOWED.contains(&duration) {
        return Err("must be between 1s and 10m".to_owned());
    }
    Ok(duration)
}

/// Any duration; `None` when it is none.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let number: u32 = number.parse().ok()?;
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(number)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_bounded() {
        for (text, expected) in [
            ("15s", Some(15_000)),
            ("1m", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("1500ms", Some(1_500)),
            ("10m", Some(600_000)),
            ("1s", Some(1_000)),
            ("999ms", None),
            ("10m1ms", None),
            ("1h", None),
            ("4294967295h4294967295h", None),
            ("99999999999s", None),
            ("15", None),
            ("s", None),
            ("", None),
            ("1.5s", None),
            ("-1s", None),
            ("15 s", None),
            ("15µs", None),
        ] {
            assert_eq!(parse(text).ok(), expected.map(Duration::from_millis), "{text:?}");
        }
        assert_eq!(parse("500ms"), Err("must be between 1s and 10m".to_owned()));
    }
}
