//! The metrics, within the time that the scraper gives.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};
use hyper::{Request, StatusCode};
use tokio::time::timeout;
use tracing::{error, warn};

use super::answer::{Answer, text, with_body};
use super::{App, negotiate, query};
use crate::collect::{SOURCES, Selection};
use crate::metrics::{self, Serving};
use crate::model::Snapshot;

/// How long before the scraper gives up the answer must be on its way.
const MARGIN: Duration = Duration::from_millis(200);

pub(super) async fn answer<B>(app: &App, request: &Request<B>) -> Answer {
    let wanted = match selection(request.uri().query().unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    let limit = limit(request.headers()).unwrap_or(app.limits.scrape);
    let snapshot = match within(app, wanted, limit).await {
        Ok(snapshot) => snapshot,
        Err(problem) => {
            warn!("scrape: {problem}");
            return text(StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n"));
        }
    };
    encode(app, &snapshot, request.headers()).unwrap_or_else(|problem| {
        error!("scrape: {problem}");
        text(StatusCode::INTERNAL_SERVER_ERROR, format!("{problem}\n"))
    })
}

/// The snapshot, or which source it was that took too long.
pub(super) async fn within(app: &App, wanted: Selection, limit: Duration) -> Result<Arc<Snapshot>, String> {
    timeout(limit, app.collector.snapshot(wanted)).await.map_err(|_| {
        let seconds = limit.as_secs_f64();
        match app.collector.reading() {
            Some(source) => format!("gave up after {seconds:.1} s while reading {source}"),
            None => format!("gave up after {seconds:.1} s"),
        }
    })
}

fn selection(query: &str) -> Result<Selection, String> {
    let wanted = query::values(query, "collect[]");
    if wanted.is_empty() {
        return Ok(Selection::all());
    }
    Selection::named(wanted.iter().map(String::as_str)).map_err(|unknown| {
        let known: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
        // Escaped: the name is whatever the client sent.
        format!("unknown collector {unknown:?}, expected one of {}\n", known.join(", "))
    })
}

/// What the scraper's own limit leaves us. At least half of it: the margin
/// must not eat a limit that is hardly longer.
fn limit(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 =
        headers.get("x-prometheus-scrape-timeout-seconds")?.to_str().ok()?.trim().parse().ok()?;
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero())?;
    Some(limit.saturating_sub(MARGIN).max(limit / 2))
}

fn encode(app: &App, snapshot: &Arc<Snapshot>, headers: &HeaderMap) -> io::Result<Answer> {
    let format = negotiate::format(headers);
    let serving =
        Serving { reload_successful: app.reload.successful(), reload_timestamp: app.reload.timestamp() };
    let gzip = negotiate::gzip(headers);
    let body = if gzip {
        // As it is written, so that text is never held whole.
        let mut compressed = GzEncoder::new(Vec::with_capacity(32 << 10), Compression::fast());
        metrics::encode(snapshot, serving, format, &mut compressed)?;
        compressed.finish()?
    } else {
        let mut plain = Vec::new();
        metrics::encode(snapshot, serving, format, &mut plain)?;
        plain
    };
    let mut answer = with_body(StatusCode::OK, format.content_type(), body.into());
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if gzip {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_little_less_than_the_scraper_s() {
        for (header, expected) in [
            ("10", Some(9_800)),
            ("10.5", Some(10_300)),
            ("0.3", Some(150)),
            ("0.5", Some(300)),
            (" 1 ", Some(800)),
            ("0", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1e300", None),
            ("ten", None),
            ("", None),
        ] {
            let value = header.parse().expect("a valid header");
            let headers =
                HeaderMap::from_iter([("x-prometheus-scrape-timeout-seconds".parse().unwrap(), value)]);
            assert_eq!(limit(&headers), expected.map(Duration::from_millis), "{header:?}");
        }
        assert_eq!(limit(&HeaderMap::new()), None);
    }

    #[test]
    fn an_unknown_source_is_named_together_with_the_known_ones() {
        let problem = selection("collect[]=n%0Ape").unwrap_err();
        assert!(problem.starts_with(r#"unknown collector "n\npe", expected one of "#), "{problem}");
        for source in SOURCES {
            assert!(problem.contains(source.name));
        }
        assert_eq!(selection("debug=1"), Ok(Selection::all()));
    }
}
