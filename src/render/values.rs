//! What `$name` stands for in expressions and texts.

use std::collections::BTreeMap;

use super::overrides::{Overrides, Url};
use crate::catalogue::Text;
use crate::catalogue::diagnoses::{Diagnoses, Quantity};

/// Labels that tell targets apart, and namespaces of one.
const IDENTITY: [&str; 4] = ["cluster", "job", "instance", "netns"];
const RUNBOOKS: &str = "https://github.com/nettune/nettune/blob/main/alerts/runbooks";
/// The window that others are scaled by.
const WINDOW: &str = "window";

/// Everything that is filled in when rules are rendered.
#[derive(Debug)]
pub(super) struct Values {
    named: BTreeMap<String, String>,
    /// Shares of 1 in percent.
    percents: BTreeMap<String, String>,
    /// Labels that tell targets and namespaces apart.
    pub(super) identity: Vec<String>,
    /// Where runbooks are.
    pub(super) runbook_url: String,
    /// Where Grafana is.
    pub(super) dashboard_url: String,
    for_scale: f64,
}

impl Values {
    /// The defaults with what `overrides` says.
    ///
    /// # Errors
    /// `--window` is no duration, or one too long.
    pub(super) fn new(diagnoses: &Diagnoses, overrides: &Overrides) -> Result<Self, String> {
        let of_window = |problem| format!("--window: {problem}");
        let scale = match &overrides.window {
            Some(window) => {
                let usual = diagnoses.values.get(WINDOW).map(|named| &named.value);
                let Some(Quantity::Text(usual)) = usual else { return Err("no window to scale".into()) };
                seconds(window).map_err(of_window)? / seconds(usual)?
            }
            None => 1.0,
        };
        let url = |url: &Option<Text<Url>>| url.as_ref().map(|url| url.0.0.clone());
        let (mut named, mut percents) = (BTreeMap::new(), BTreeMap::new());
        for (name, known) in &diagnoses.values {
            let text = match (&known.value, overrides.values.get(name)) {
                (_, Some(wanted)) => wanted.clone(),
                (Quantity::Number(number), None) => number.to_string(),
                (Quantity::Text(usual), None) => match seconds(usual) {
                    Ok(time) => duration(time * scale).map_err(of_window)?,
                    Err(_) => usual.clone(),
                },
            };
            if let (true, Ok(share)) = (known.share, text.parse::<f64>()) {
                // Without the noise of binary fractions.
                percents.insert(name.clone(), format!("{}%", (share * 1e8).round() / 1e6));
            }
            named.insert(name.clone(), text);
        }
        let identity = match &overrides.identity {
            Some(labels) => labels.clone(),
            None => IDENTITY.map(str::to_owned).to_vec(),
        };
        let host = identity[..identity.len() - 1].join(", ");
        named.insert("id".into(), identity.join(", "));
        named.insert("host".into(), host);
        Ok(Self {
            named,
            percents,
            identity,
            runbook_url: url(&overrides.runbook_url).unwrap_or_else(|| RUNBOOKS.into()),
            dashboard_url: url(&overrides.dashboard_url).unwrap_or_default(),
            for_scale: overrides.for_scale.unwrap_or(1.0),
        })
    }

    /// How long something must hold.
    ///
    /// # Errors
    /// No duration, or with `--for-scale` one too long.
    pub(super) fn hold(&self, time: &str) -> Result<String, String> {
        match time {
            "0s" => Ok(time.to_owned()),
            time => {
                let scaled = duration(seconds(time)? * self.for_scale);
                scaled.map_err(|problem| format!("--for-scale: {problem}"))
            }
        }
    }

    /// The text with every `$name` filled in; `$$` is a dollar.
    ///
    /// # Errors
    /// A name that stands for nothing.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        self.fill_but(text, |_| None)
    }

    /// The same for people, to whom shares are shown in percent.
    ///
    /// # Errors
    /// A name that stands for nothing.
    pub(super) fn words(&self, text: &str) -> Result<String, String> {
        self.fill_but(text, |name| self.percents.get(name).cloned())
    }

    /// The same, with names of the caller's own.
    ///
    /// # Errors
    /// A name that stands for nothing.
    pub(super) fn fill_but(
        &self,
        text: &str,
        mut own: impl FnMut(&str) -> Option<String>,
    ) -> Result<String, String> {
        let mut pieces = text.split('$');
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        while let Some(piece) = pieces.next() {
            if piece.is_empty() {
                filled.push('$');
                filled.push_str(pieces.next().unwrap_or_default());
                continue;
            }
            let end = piece.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(piece.len());
            let (name, rest) = piece.split_at(end);
            let value = own(name).or_else(|| self.named.get(name).cloned());
            filled.push_str(&value.ok_or_else(|| format!("${name} stands for nothing in {text:?}"))?);
            filled.push_str(rest);
        }
        Ok(filled)
    }
}

/// Units of durations as Prometheus has them, the longest first, milliseconds.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Longest duration, seconds: Prometheus keeps 63 bits of nanoseconds (ParseDuration of
/// prometheus/common, model/time.go).
const LONGEST: f64 = (i64::MAX / 1_000_000_000) as f64;

/// Seconds of a duration such as `1h30m`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let bad = || format!("{text:?} is no duration such as 5m");
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let length = rest.find(|character: char| character.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == &rest[..length]).ok_or_else(bad)?;
        total = number.checked_mul(*unit).and_then(|more| total.checked_add(more)).ok_or_else(bad)?;
        rest = &rest[length..];
    }
    if total == 0 { Err(bad()) } else { Ok(total as f64 / 1e3) }
}

/// The other way; at least a millisecond.
pub(super) fn duration(seconds: f64) -> Result<String, String> {
    if seconds > LONGEST {
        return Err("more than the 292 years that Prometheus can hold".into());
    }
    let mut rest = ((seconds * 1e3).round() as u64).max(1);
    let mut text = String::new();
    // Weeks and years are not what people write.
    for (unit, length) in UNITS.into_iter().skip(2) {
        let number = rest / length;
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
            rest %= length;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_prometheus() {
        for (text, expected) in
            [("5m", 300.0), ("1h30m", 5400.0), ("15s", 15.0), ("250ms", 0.25), ("1d", 86_400.0)]
        {
            assert_eq!(seconds(text), Ok(expected));
            assert_eq!(duration(expected).as_deref(), Ok(text));
        }
        // promtool takes 106751d and refuses 106752d.
        assert_eq!(duration(106_751.0 * 86_400.0).as_deref(), Ok("106751d"));
        for too_long in [106_752.0 * 86_400.0, 1e300, f64::INFINITY] {
            assert!(duration(too_long).is_err(), "{too_long}");
        }
        for text in ["", "5", "m", "5 m", "5x", "-5m", "0s", "99999999999999999999y"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    const YAML: &str = "values: {window: {value: 5m, help: h}, long: {value: 1h, help: h}, floor: {value: 0.07, share: true, help: h}}\n\
        records: []\nsections: []\ndiagnoses: []\n";

    fn values(overrides: &Overrides) -> Result<Values, String> {
        Values::new(&Diagnoses::parse(YAML).unwrap(), overrides)
    }

    #[test]
    fn names_are_filled_in() {
        let overrides = Overrides { window: Some("10s".into()), ..Overrides::default() };
        let values = values(&overrides).unwrap();
        let filled = values.fill("sum by ($id) (x[$window]) > $floor and y[$long] $$1");
        assert_eq!(filled.unwrap(), "sum by (cluster, job, instance, netns) (x[10s]) > 0.07 and y[2m] $1");
        assert_eq!(values.words("above $floor for $window").unwrap(), "above 7% for 10s");
        assert!(values.fill("$nothing").is_err());
    }

    #[test]
    fn what_makes_a_duration_too_long_is_named() {
        let window =
            |window: &str| values(&Overrides { window: Some(window.into()), ..Overrides::default() });
        assert!(window("5x").unwrap_err().starts_with("--window: \"5x\" is no duration"));
        // The other window is twelve times as long.
        assert!(window("100y").unwrap_err().starts_with("--window: more than"));
        let scaled = values(&Overrides { for_scale: Some(1e300), ..Overrides::default() }).unwrap();
        assert!(scaled.hold("5m").unwrap_err().starts_with("--for-scale: more than"));
    }
}
