//! From request to answer: paths, methods and the plain pages.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tracing::debug;

use super::{App, changes, page, scrape};

pub(super) type Answer = Response<Full<Bytes>>;

/// Answers one request. Its body, if it has one, is never read.
pub(super) async fn answer(app: &App, request: &Request<Incoming>) -> Result<Answer, Infallible> {
    debug!(method = %request.method(), uri = %request.uri(), "request");
    let mut answer = route(app, request).await;
    if app.free.available_permits() == 0 {
        // Others may be waiting for this connection's place.
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

async fn route(app: &App, request: &Request<Incoming>) -> Answer {
    let path = request.uri().path();
    if !(path == app.telemetry_path || matches!(path, "/" | "/changes" | "/-/healthy" | "/-/ready")) {
        return text(StatusCode::NOT_FOUND, "no such page; / lists those there are\n");
    }
    // hyper sends no body in answer to HEAD, only what it would have been.
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match path {
        "/" => page::answer(app).await,
        "/changes" => changes::answer(app, request),
        "/-/healthy" => text(StatusCode::OK, "healthy\n"),
        "/-/ready" if app.ready.load(Ordering::Relaxed) => text(StatusCode::OK, "ready\n"),
        "/-/ready" => text(StatusCode::SERVICE_UNAVAILABLE, "the first collection has not finished\n"),
        _ => scrape::answer(app, request).await,
    }
}

/// An answer of plain text.
pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Answer {
    with_body(status, "text/plain; charset=utf-8", body.into().into())
}

/// An answer with a body of the given type.
pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
