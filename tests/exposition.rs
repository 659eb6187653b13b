//! Reading an exposition as another program would: the 0.0.4 text and protobuf as
//! maps, and the grammar of OpenMetrics 1.0 line by line.

use std::collections::{BTreeMap, HashSet};

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{Metric, MetricFamily};
use prost::Message;

/// Samples by series: `name{label="value",…}` → value.
pub(crate) type Samples = BTreeMap<String, f64>;

/// Samples of a text exposition; a series that comes twice fails the test.
pub(crate) fn samples(text: &str) -> Samples {
    let mut samples = Samples::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        let value = value.parse().unwrap_or_else(|_| panic!("{line}: not a number"));
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
    }
    samples
}

/// Families of a protobuf exposition, each behind its length.
pub(crate) fn protobuf(mut bytes: &[u8]) -> Vec<MetricFamily> {
    let mut families = Vec::new();
    while !bytes.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut bytes).expect("a family"));
    }
    families
}

/// Samples of these families as the 0.0.4 text names them, the native form of
/// histograms left out.
pub(crate) fn protobuf_samples(families: &[MetricFamily]) -> Samples {
    let mut samples = Samples::new();
    let all = families.iter().flat_map(|family| family.metric.iter().map(move |metric| (family, metric)));
    for (family, metric) in all {
        let mut insert = |suffix: &str, le: Option<f64>, value: f64| {
            let series = series(&format!("{}{suffix}", family.name), metric, le);
            assert!(samples.insert(series.clone(), value).is_none(), "{series} comes twice");
        };
        match (&metric.counter, &metric.gauge, &metric.histogram) {
            (Some(counter), None, None) => insert("", None, counter.value),
            (None, Some(gauge), None) => insert("", None, gauge.value),
            (None, None, Some(histogram)) => {
                insert("_sum", None, histogram.sample_sum);
                insert("_count", None, histogram.sample_count as f64);
                for bucket in &histogram.bucket {
                    insert("_bucket", Some(bucket.upper_bound), bucket.cumulative_count as f64);
                }
            }
            _ => panic!("{}: not one of three kinds", family.name),
        }
    }
    samples
}

fn series(name: &str, metric: &Metric, le: Option<f64>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let own = metric.label.iter().map(|label| format!("{}=\"{}\"", label.name, escaped(&label.value)));
    let bound = le.map(|le| if le.is_finite() { format!("le=\"{le}\"") } else { "le=\"+Inf\"".into() });
    let labels: Vec<_> = own.chain(bound).collect();
    if labels.is_empty() { name.into() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// Name of the family in a `# TYPE` line and its type, in order.
pub(crate) fn families(text: &str) -> Vec<(String, String)> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split_once(' ').unwrap()).map(|(name, kind)| (name.into(), kind.into())).collect()
}

/// What of `text` the grammar of OpenMetrics 1.0 does not allow.
/// <https://prometheus.io/docs/specs/om/open_metrics_spec/>
pub(crate) fn openmetrics_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let Some(body) = text.strip_suffix("# EOF\n") else {
        return vec!["does not end with `# EOF` and a newline".into()];
    };
    let mut family: Option<(String, String)> = None;
    let mut seen_families = HashSet::new();
    let mut seen_series = HashSet::new();
    for (index, line) in body.split_terminator('\n').enumerate() {
        let mut wrong = |what: &str| errors.push(format!("line {}: {what}: {line}", index + 1));
        if let Some(rest) = line.strip_prefix("# ") {
            match rest.splitn(3, ' ').collect::<Vec<_>>()[..] {
                ["HELP", name, help] => {
                    if help.chars().any(|character| matches!(character, '"' | '\\')) {
                        wrong("unescaped character in help");
                    }
                    if !valid_name(name) {
                        wrong("bad name");
                    }
                }
                ["TYPE", name, kind] => {
                    if !["counter", "gauge", "info", "histogram", "unknown"].contains(&kind) {
                        wrong("unknown type");
                    }
                    if !seen_families.insert(name.to_owned()) {
                        wrong("family comes twice");
                    }
                    family = Some((name.to_owned(), kind.to_owned()));
                }
                ["UNIT", ..] => {}
                _ => wrong("neither HELP, TYPE nor UNIT"),
            }
            continue;
        }
        let Some((name, labels, value)) = split_sample(line) else {
            wrong("not a sample");
            continue;
        };
        if !seen_series.insert(format!("{name}{labels:?}")) {
            wrong("series comes twice");
        }
        match &family {
            None => wrong("sample before its family"),
            Some((of, kind)) => {
                let suffixes: &[&str] = match kind.as_str() {
                    "counter" => &["_total", "_created"],
                    "info" => &["_info"],
                    "histogram" => &["_bucket", "_sum", "_count", "_created"],
                    _ => &[""],
                };
                if !suffixes.iter().any(|suffix| name == format!("{of}{suffix}")) {
                    wrong("name does not belong to the family and type above it");
                }
                match value.parse::<f64>() {
                    Err(_) => wrong("value is no number"),
                    Ok(value) if kind == "counter" && (value < 0.0 || value.is_nan()) => {
                        wrong("counter is negative or NaN")
                    }
                    Ok(value) if kind == "info" && value != 1.0 => wrong("info is not 1"),
                    Ok(_) => {}
                }
            }
        }
    }
    errors
}

fn valid_name(name: &str) -> bool {
    let mut characters = name.chars();
    let first = |character: char| character.is_ascii_alphabetic() || character == '_' || character == ':';
    characters.next().is_some_and(first)
        && characters.all(|character| first(character) || character.is_ascii_digit())
}

/// Name, labels and value of a sample line; label values unescaped.
type Sample = (String, Vec<(String, String)>, String);

fn split_sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let name = &line[..end];
    let mut labels: Vec<(String, String)> = Vec::new();
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut characters = after.char_indices();
            let close = loop {
                match characters.next()? {
                    (place, '"') => break place,
                    (_, '\\') => value.push(match characters.next()?.1 {
                        'n' => '\n',
                        escaped @ ('\\' | '"') => escaped,
                        _ => return None,
                    }),
                    (_, character) => value.push(character),
                }
            };
            let known = |(name, _): &(String, String)| name == label;
            if !valid_name(label) || label.contains(':') || labels.iter().any(known) {
                return None;
            }
            labels.push((label.to_owned(), value));
            rest = &after[close + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ')?;
    (valid_name(name) && !value.contains(' ')).then(|| (name.to_owned(), labels, value.to_owned()))
}

#[test]
fn the_grammar_refuses_what_it_should() {
    let good =
        "# HELP a_b Help.\n# TYPE a_b counter\na_b_total{x=\"1\\\"\"} 5\n# TYPE c gauge\nc 1.5\n# EOF\n";
    assert_eq!(openmetrics_errors(good), [""; 0]);
    for (from, to) in [
        ("# EOF\n", ""),
        ("a_b_total{", "a_b{"),
        ("a_b_total{x", "a_b_total{0x"),
        ("} 5", "} -5"),
        ("} 5", "} five"),
        ("c 1.5", "c 1.5\nc 1.5"),
        ("# TYPE c gauge\n", ""),
        ("# TYPE c gauge", "# TYPE a_b gauge"),
        ("\\\"\"}", "\\q\"}"),
        ("Help.", "He\"lp."),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(openmetrics_errors(&bad), [""; 0], "{bad}");
    }
}
