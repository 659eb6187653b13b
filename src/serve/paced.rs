//! A stream that gives a connection only so long for each of its phases.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::Limits;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// The head of a request is on its way.
    Head,
    /// The answer is being made.
    Handling,
    /// The answer is on its way.
    Answering,
    /// Between two requests.
    Idle,
}

/// The state, shared by the stream and the service of one connection.
#[derive(Debug, Clone)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Default for Phase {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(State::Head as u8)))
    }
}

impl Phase {
    pub(super) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> State {
        const STATES: [State; 4] = [State::Head, State::Handling, State::Answering, State::Idle];
        STATES[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

/// Fails with `TimedOut` when a phase takes too long in total, however busy
/// the client looks meanwhile: a byte now and then buys no time.
pub(super) struct Paced<S> {
    stream: S,
    phase: Phase,
    head: Duration,
    answer: Duration,
    idle: Duration,
    /// The state that `deadline` was set for.
    timed: State,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, phase: Phase, limits: &Limits) -> Self {
        let Limits { head, answer, idle, .. } = *limits;
        let deadline = Box::pin(sleep(head));
        Self { stream, phase, head, answer, idle, timed: State::Head, deadline }
    }

    /// Starts the clock of a phase that has just begun.
    fn update(&mut self) {
        let state = self.phase.get();
        if state == self.timed {
            return;
        }
        self.timed = state;
        if let Some(limit) = self.limit() {
            self.deadline.as_mut().reset(Instant::now() + limit);
        }
    }

    /// How long the phase may take; making the answer has its own limit.
    fn limit(&self) -> Option<Duration> {
        match self.timed {
            State::Head => Some(self.head),
            State::Handling => None,
            State::Answering => Some(self.answer),
            State::Idle => Some(self.idle),
        }
    }

    /// Fails when the phase is over its time; else the task is woken then.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.limit().is_some() && self.deadline.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{:?} took too long", self.timed)));
        }
        Ok(())
    }

    fn checked<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_pending()
            && let Err(late) = self.check(cx)
        {
            return Poll::Ready(Err(late));
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.update();
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.timed == State::Idle && buffer.filled().len() > before {
            self.phase.set(State::Head);
            self.update();
        }
        self.checked(cx, result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.update();
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.checked(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.update();
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.checked(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once it has handed over all bytes of the answer.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.update();
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        if self.timed == State::Answering && matches!(result, Poll::Ready(Ok(()))) {
            self.phase.set(State::Idle);
            self.update();
            // hyper need not read again before bytes arrive, so that the task
            // must be told here to wake up when none do.
            self.check(cx)?;
        }
        self.checked(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.update();
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.checked(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::UnixStream;

    use super::*;

    #[test]
    fn a_task_that_only_flushed_is_woken_when_it_has_been_idle_too_long() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be built").block_on(async {
            let (stream, _client) = UnixStream::pair().expect("sockets can be made");
            let limits = Limits { idle: Duration::from_millis(20), ..Limits::default() };
            let phase = Phase::default();
            let mut paced = Paced::new(stream, phase.clone(), &limits);
            phase.set(State::Answering);
            let mut polls = 0;
            let woken = poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    assert!(matches!(Pin::new(&mut paced).poll_flush(cx), Poll::Ready(Ok(()))));
                    assert_eq!(phase.get(), State::Idle);
                    return Poll::Pending;
                }
                Pin::new(&mut paced).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]))
            });
            // Only the deadline wakes it: nothing is ever sent.
            let late = woken.await;
            assert_eq!(late.map_err(|late| late.kind()), Err(io::ErrorKind::TimedOut));
        });
    }
}
