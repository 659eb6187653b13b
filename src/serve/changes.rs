//! Changes of parameters, as text for people or as JSON.

use hyper::header::{HeaderValue, VARY};
use hyper::{Request, StatusCode};

use super::answer::{Answer, text, with_body};
use super::{App, negotiate, query};
use crate::ledger;

pub(super) fn answer<B>(app: &App, request: &Request<B>) -> Answer {
    let asked = query::values(request.uri().query().unwrap_or_default(), "format");
    let json = match asked.last().map(String::as_str) {
        Some("json") => true,
        Some("text") => false,
        // Escaped: the word is whatever the client sent.
        Some(other) => {
            let problem = format!("unknown format {other:?}, expected text or json\n");
            return text(StatusCode::BAD_REQUEST, problem);
        }
        None => negotiate::json(request.headers()),
    };
    let changes = app.collector.ledger().changes();
    let mut answer = if json {
        with_body(StatusCode::OK, "application/json", ledger::json(changes).into())
    } else {
        text(StatusCode::OK, ledger::text(changes))
    };
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    answer
}
