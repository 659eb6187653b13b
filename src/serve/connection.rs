//! One connection, from accept to close.

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::debug;

use super::paced::{Paced, Phase, State};
use super::stream::Stream;
use super::{App, answer};

/// Most bytes of a request's head. Prometheus sends about 400.
const HEAD_SIZE: usize = 16 << 10;

/// What all connections are told at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// Nothing.
    Serve,
    /// Others are waiting: close if between two requests.
    CloseIdle,
    /// The end: answer what was asked, then close.
    Drain,
}

/// Serves `stream` until either side closes it. The permit and the receiver
/// are held that long; they are how connections are counted.
pub(super) async fn serve(
    stream: Stream,
    app: Arc<App>,
    _permit: OwnedSemaphorePermit,
    mut notices: watch::Receiver<Notice>,
) {
    let phase = Phase::default();
    let stream = TokioIo::new(Paced::new(stream, phase.clone(), &app.limits));
    let service = service_fn(|request| {
        let (app, phase) = (app.clone(), phase.clone());
        async move {
            phase.set(State::Handling);
            let response = answer::answer(&app, &request).await;
            phase.set(State::Answering);
            response
        }
    });
    // `Paced` bounds every phase; hyper's own timer would close a connection
    // that waits for the next scrape.
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        // A client may say that it will ask no more and still wait for answers.
        .half_close(true)
        .max_buf_size(HEAD_SIZE)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    // Closing what is idle was asked of those before this one.
    notices.mark_unchanged();
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!("connection: {error}");
                }
                return;
            }
            told = notices.changed() => {
                let notice = if told.is_ok() { *notices.borrow_and_update() } else { Notice::Drain };
                match notice {
                    Notice::Drain => break,
                    Notice::CloseIdle if phase.get() == State::Idle => break,
                    Notice::CloseIdle | Notice::Serve => {}
                }
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    if let Err(error) = connection.await {
        debug!("connection: {error}");
    }
}
