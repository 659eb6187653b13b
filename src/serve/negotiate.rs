//! Which format and encoding a client prefers (RFC 9110, section 12.5).

use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName};

use crate::metrics::Format;

/// The format to answer in: the one that the client likes best, and of equals the
/// one that most clients understand.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let ranges: Vec<_> = elements(headers, &ACCEPT).filter_map(Range::parse).collect();
    // Of equals this finds the last.
    let best = Format::ALL.into_iter().max_by_key(|format| quality(&ranges, format.content_type()));
    best.unwrap_or(Format::Text)
}

/// Whether JSON is preferred to plain text.
pub(super) fn json(headers: &HeaderMap) -> bool {
    let ranges: Vec<_> = elements(headers, &ACCEPT).filter_map(Range::parse).collect();
    quality(&ranges, "application/json") > quality(&ranges, "text/plain;charset=utf-8")
}

/// Whether to compress.
pub(super) fn gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for element in elements(headers, &ACCEPT_ENCODING) {
        let mut parts = split(element, ';');
        let coding = parts.next().unwrap_or_default().to_ascii_lowercase();
        let Some(quality) = q(parts) else { continue };
        match coding.as_str() {
            "gzip" | "x-gzip" => gzip = Some(quality),
            "identity" => identity = Some(quality),
            "*" => any = Some(quality),
            _ => {}
        }
    }
    // Not compressing is acceptable unless refused, and preferred only if said so.
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// One element of `Accept`; a content type is one that describes itself alone.
struct Range<'a> {
    kind: &'a str,
    subkind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: u16,
}

impl<'a> Range<'a> {
    fn parse(element: &'a str) -> Option<Self> {
        let mut parts = split(element, ';');
        let (kind, subkind) = parts.next()?.split_once('/')?;
        let pairs = parts.clone().filter_map(|parameter| parameter.split_once('='));
        let parameters = pairs.map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))).collect();
        Some(Self { kind: kind.trim(), subkind: subkind.trim(), parameters, quality: q(parts)? })
    }

    /// How closely this range describes a content type; `None` if it does not.
    /// Parameters that the type does not have do not set our formats apart.
    fn closeness(&self, own: &Self) -> Option<u8> {
        match (self.kind, self.subkind) {
            ("*", "*") => Some(0),
            (kind, "*") if kind.eq_ignore_ascii_case(own.kind) => Some(1),
            (kind, subkind)
                if kind.eq_ignore_ascii_case(own.kind) && subkind.eq_ignore_ascii_case(own.subkind) =>
            {
                own.parameters.iter().try_fold(2, |closeness, (name, value)| {
                    match self.parameters.iter().find(|(wanted, _)| wanted.eq_ignore_ascii_case(name)) {
                        None => Some(closeness),
                        Some((_, wanted)) if wanted.eq_ignore_ascii_case(value) => Some(closeness + 1),
                        Some(_) => None,
                    }
                })
            }
            _ => None,
        }
    }
}

/// The quality, in thousandths, that the closest of `ranges` gives a content type.
fn quality(ranges: &[Range<'_>], content_type: &str) -> u16 {
    let Some(own) = Range::parse(content_type) else { return 0 };
    let fitting = ranges.iter().filter_map(|range| Some((range.closeness(&own)?, range.quality)));
    fitting.max().map_or(0, |(_, quality)| quality)
}

/// The elements of a header that is a list and may occur several times.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| split(value, ',')).filter(|element| !element.is_empty())
}

/// Splits outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> + Clone {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
    .map(str::trim)
}

/// The quality among parameters, in thousandths; 1 when there is none, `None`
/// when it is not a quality, which makes the element unusable.
fn q<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Option<u16> {
    let quality = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let Some(text) = quality else { return Some(1000) };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths: u16 = if digits {
        format!("{fraction:0<3}").parse().ok()?
    } else {
        return None;
    };
    match (whole, thousandths) {
        ("0", _) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        value.split('\n').map(|value| (name.clone(), value.parse().expect("a valid header"))).collect()
    }

    #[test]
    fn formats() {
        use Format::{OpenMetrics, Protobuf, Text};
        for (accept, expected) in [
            // Prometheus 2.42
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OpenMetrics,
            ),
            // Prometheus 3
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                OpenMetrics,
            ),
            // Prometheus 2.42 with native histograms
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                 application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Protobuf,
            ),
            // set to prefer text to it
            (
                "text/plain;version=0.0.4,\
                 application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.9",
                Text,
            ),
            ("application/vnd.google.protobuf", Protobuf),
            ("application/vnd.google.protobuf; Encoding=\"delimited\"; x=y", Protobuf),
            ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", Text),
            (
                "application/vnd.google.protobuf;proto=other;encoding=delimited, application/*;q=0.1",
                OpenMetrics,
            ),
            ("application/vnd.google.protobuf;q=0", Text),
            ("application/vnd.google.protobuf, application/openmetrics-text", OpenMetrics),
            ("application/vnd.google.protobuf;q=0.4, */*;q=0.3", Protobuf),
            ("application/*;q=0.5, application/openmetrics-text;q=0.1", Protobuf),
            ("text/plain;q=0, application/openmetrics-text;q=0, */*;q=0.1", Protobuf),
            ("", Text),
            ("*/*", Text),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Text),
            ("text/plain", Text),
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8", OpenMetrics),
            ("application/*", OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Text),
            ("application/openmetrics-text;version=0.0.1, */*;q=0.1", Text),
            ("application/openmetrics-text, text/plain", Text),
            ("text/plain;q=0.9, application/openmetrics-text", OpenMetrics),
            ("text/plain;q=0.5, application/openmetrics-text;q=0.501", OpenMetrics),
            ("text/plain;q=0.9\napplication/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text;q=0", Text),
            ("application/openmetrics-text;q=0, */*", Text),
            ("text/plain;q=0, */*;q=0.5", OpenMetrics),
            ("text/*;q=0.3, application/openmetrics-text;q=0.2", Text),
            ("application/openmetrics-text;q=2, text/plain;q=0.1", Text),
            ("application/openmetrics-text;q=x, text/plain;q=0.1", Text),
            ("application/openmetrics-text;x=\"a,b;q=0\", text/plain;q=0.1", OpenMetrics),
            ("image/png", Text),
            (",;,/;q", Text),
        ] {
            assert_eq!(format(&headers(ACCEPT, accept)), expected, "{accept:?}");
        }
        assert_eq!(format(&HeaderMap::new()), Text);
    }

    #[test]
    fn json_is_for_those_who_prefer_it() {
        for (accept, expected) in [
            ("application/json", true),
            ("application/json, text/plain;q=0.9, */*;q=0.1", true),
            ("application/*", true),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("application/json;q=0.5, text/plain", false),
            ("*/*", false),
            ("application/json;q=0", false),
        ] {
            assert_eq!(json(&headers(ACCEPT, accept)), expected, "{accept:?}");
        }
        assert!(!json(&HeaderMap::new()));
    }

    #[test]
    fn encodings() {
        for (accept, expected) in [
            ("gzip", true),
            ("x-gzip", true),
            ("GZIP", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("*", true),
            ("gzip;q=0.001", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip;q=0, *", false),
            ("*;q=0", false),
            ("identity", false),
            ("gzip;q=0.5, identity", false),
            ("gzip;q=0.5, identity;q=0.5", true),
            ("identity;q=0, gzip;q=0.1", true),
            ("br, zstd", false),
            ("gzip;q=1.1", false),
            ("", false),
        ] {
            assert_eq!(gzip(&headers(ACCEPT_ENCODING, accept)), expected, "{accept:?}");
        }
        assert!(!gzip(&HeaderMap::new()));
    }
}
