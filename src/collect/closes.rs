//! The thread that hears of closed connections. What it heard is fetched by the
//! one that walks sockets.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tracing::warn;

use super::sampler::cpu_time;
use crate::kernel::sock_diag::CloseEvents;
use crate::kernel::{Kernel, Result};
use crate::read::closes::{self, Closed};

/// Bytes of notifications that the kernel keeps for us: some 6,500, of which an
/// ordinary user gets 300 with the usual `net.core.rmem_max`.
const ROOM: usize = 4 << 20;
/// Most connections that are kept until they are fetched, some 5 MB.
const LIMIT: usize = 16_384;
/// After the first notification others gather for this long, so that many closes
/// do not wake the thread as often. An ordinary user's room is full at 30,000
/// closes a second.
const GATHER: Duration = Duration::from_millis(10);
/// The thread looks this often whether it is still wanted.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handle to the thread, which ends within a second after the handle is dropped.
#[derive(Debug)]
pub(super) struct Closes {
    shared: Arc<Shared>,
    /// What was fetched last, whose memory is used again.
    fetched: Vec<Closed>,
    balance: Balance,
}

#[derive(Debug)]
struct Shared {
    events: CloseEvents,
    limit: usize,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    closed: Vec<Closed>,
    /// Dropped by the kernel.
    lost: u64,
    /// Dropped here, for want of room or because they could not be understood.
    dropped: u64,
    cpu: Duration,
}

/// What was heard since the last time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch<'a> {
    pub(super) closed: &'a [Closed],
    /// Notifications that came to nothing, since the start.
    pub(super) lost: u64,
    /// CPU time of the thread, since the start.
    pub(super) cpu: Duration,
}

impl Closes {
    /// Starts the thread, in the namespace of the caller.
    ///
    /// # Errors
    /// Absent where there are no notifications; or the system has no socket or
    /// thread to give.
    pub(super) fn start(kernel: &Kernel) -> Result<Self> {
        let events = kernel.close_events(ROOM)?;
        Self::spawn(events, LIMIT)
    }

    fn spawn(events: CloseEvents, limit: usize) -> Result<Self> {
        let shared = Arc::new(Shared { events, limit, heard: Mutex::default() });
        let thread = Arc::downgrade(&shared);
        let name = "closes";
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || hear(&thread))
            .map_err(|source| crate::kernel::Error::Io { path: name.into(), source })?;
        Ok(Self { shared, fetched: Vec::new(), balance: Balance::new(Instant::now()) })
    }

    /// Fetches what was heard.
    pub(super) fn take(&mut self) -> Batch<'_> {
        self.fetched.clear();
        let mut heard = self.shared.locked();
        std::mem::swap(&mut heard.closed, &mut self.fetched);
        // A burst is not to hold memory for ever.
        heard.closed.shrink_to(2 * self.fetched.len());
        let (lost, cpu) = (heard.lost + heard.dropped, heard.cpu);
        drop(heard);
        Batch { closed: &self.fetched, lost, cpu }
    }

    /// Pauses while the thread has had more than `share` of one CPU, and resumes
    /// when it has not; true while it hears.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn keep_to(&mut self, share: f64) -> io::Result<bool> {
        let cpu = self.shared.locked().cpu;
        let (before, after) = (self.balance.is_over(), self.balance.update(Instant::now(), cpu, share));
        match (before, after) {
            (false, true) => self.pause()?,
            (true, false) => self.resume()?,
            _ => {}
        }
        Ok(!after)
    }

    /// Hears no more of what is closed from now on, at no cost to anybody. It is
    /// not counted as lost.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn pause(&self) -> io::Result<()> {
        self.shared.events.leave()
    }

    /// Hears again.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn resume(&self) -> io::Result<()> {
        self.shared.events.rejoin()
    }
}

/// CPU time used beyond a share of the time that passed.
#[derive(Debug)]
struct Balance {
    at: Instant,
    cpu: Duration,
    /// Seconds; what is saved while little happens buys nothing later.
    over: f64,
}

impl Balance {
    fn new(at: Instant) -> Self {
        Self { at, cpu: Duration::ZERO, over: 0.0 }
    }

    fn is_over(&self) -> bool {
        self.over > 0.0
    }

    /// Takes in what was used so far; true while that is too much.
    fn update(&mut self, now: Instant, cpu: Duration, share: f64) -> bool {
        let used = cpu.saturating_sub(self.cpu).as_secs_f64();
        let earned = share * now.saturating_duration_since(self.at).as_secs_f64();
        self.over = (self.over + used - earned).max(0.0);
        (self.at, self.cpu) = (now, cpu);
        self.is_over()
    }
}

impl Drop for Closes {
    /// Nothing is to gather until the thread notices; if it fails, it soon does.
    fn drop(&mut self) {
        let _ = self.pause();
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what has come, when something has.
    fn listen(&self, batch: &mut Vec<Closed>) -> io::Result<()> {
        if !self.events.wait(PATIENCE)? {
            return Ok(());
        }
        std::thread::sleep(GATHER);
        let mut malformed = 0;
        self.events.drain(self.limit, |bytes| {
            malformed += u64::from(closes::walk(bytes, |closed| batch.push(closed)).is_err());
        })?;
        let lost = self.events.lost()?;
        let mut heard = self.locked();
        let room = self.limit - heard.closed.len();
        heard.dropped += malformed + batch.len().saturating_sub(room) as u64;
        heard.closed.extend(batch.drain(..).take(room));
        (heard.lost, heard.cpu) = (lost, cpu_time());
        Ok(())
    }
}

/// The thread: as long as somebody has the handle.
fn hear(shared: &Weak<Shared>) {
    let mut batch = Vec::new();
    while let Some(shared) = shared.upgrade() {
        if let Err(error) = shared.listen(&mut batch) {
            warn!("close notifications: {error}; no more are heard");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;
    use crate::kernel::Roots;

    /// Opens and closes connections over loopback; gives the clients' ports.
    fn churn(count: usize) -> Vec<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let open = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        let ports = (0..count).map(open).map(|(client, _)| client.local_addr().unwrap().port());
        ports.collect()
    }

    fn start(limit: usize) -> Closes {
        Closes::spawn(Kernel::live(Roots::default()).close_events(ROOM).unwrap(), limit).unwrap()
    }

    /// Fetches until `good`, which other tests' connections do not keep it from.
    fn until(closes: &mut Closes, mut good: impl FnMut(&Batch<'_>) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !good(&closes.take()) {
            assert!(Instant::now() < deadline, "in vain");
            std::thread::sleep(GATHER);
        }
    }

    #[test]
    fn what_closes_is_heard_and_again_after_a_pause() {
        let mut closes = start(LIMIT);
        for _ in 0..2 {
            let expected = churn(30);
            let mut heard: Vec<u16> = Vec::new();
            until(&mut closes, |batch| {
                heard.extend(batch.closed.iter().map(|closed| closed.port));
                expected.iter().all(|port| heard.contains(port))
            });
            closes.pause().unwrap();
            closes.resume().unwrap();
        }
    }

    #[test]
    fn what_finds_no_room_is_lost_and_counted() {
        let mut closes = start(10);
        churn(50);
        let deadline = Instant::now() + Duration::from_secs(20);
        while closes.shared.locked().dropped < 90 {
            assert!(Instant::now() < deadline, "in vain");
            std::thread::sleep(GATHER);
        }
        let batch = closes.take();
        assert!(batch.closed.len() == 10 && batch.lost >= 90 && batch.cpu > Duration::ZERO, "{batch:?}");
    }

    #[test]
    fn the_thread_ends_when_nobody_has_the_handle() {
        let closes = start(LIMIT);
        let shared = Arc::downgrade(&closes.shared);
        drop(closes);
        let deadline = Instant::now() + 3 * PATIENCE;
        while shared.strong_count() > 0 {
            assert!(Instant::now() < deadline, "it goes on");
            std::thread::sleep(GATHER);
        }
    }

    #[test]
    fn a_recording_has_no_notifications() {
        let roots = Roots {
            proc: "tests/fixtures/6.18-host/proc".into(),
            sys: "tests/fixtures/6.18-host/sys".into(),
            ..Roots::default()
        };
        let kernel = Kernel::recorded(roots, std::path::Path::new("tests/fixtures/6.18-host")).unwrap();
        assert!(Closes::start(&kernel).unwrap_err().is_absent());
    }

    #[test]
    fn too_much_is_paid_back_and_nothing_is_saved_up() {
        let start = Instant::now();
        let mut balance = Balance::new(start);
        let mut after = |seconds: u64, milliseconds: u64| {
            let (at, cpu) = (start + Duration::from_secs(seconds), Duration::from_millis(milliseconds));
            balance.update(at, cpu, 0.01)
        };
        assert!(!after(100, 10));
        // 30 ms in a second: 10 are earned, 20 take two seconds more.
        assert!(after(101, 40));
        assert!(after(102, 40));
        assert!(!after(103, 40));
    }
}
