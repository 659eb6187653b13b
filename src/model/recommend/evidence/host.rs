//! What counters and tables of the host show.

use std::time::{Duration, Instant};

use super::time::{HOUR, Highest, Rate, Rise};
use super::{Key, Signs};
use crate::catalogue::{DIAGNOSES, Sign};
use crate::model::Snapshot;
use crate::read::Family;
use crate::read::counters::Counters;
use crate::read::neighbours::Table;
use crate::read::sockstat::{Limits, Sockstat};

/// TIME_WAIT lasts this long (TCP_TIMEWAIT_LEN in include/net/tcp.h, 2.6-6.18).
const TIME_WAIT: Duration = Duration::from_secs(60);

/// What is remembered of counters and tables.
#[derive(Debug, Default)]
pub(in crate::model::recommend) struct Host {
    listen_drops: [Rise; 3],
    passive_opens: Rise,
    cookies: [Rise; 2],
    time_wait_overflow: Rise,
    overflow_rate: Rate,
    memory_pressure: [Rise; 2],
    aborts: Rise,
    datagram_errors: [Rise; 2],
    reverse_path: Rise,
    chains: Rise,
    /// Sockets that found no room in TIME_WAIT, in the time that it lasts.
    pub(in crate::model::recommend) overflow: Highest,
    pub(in crate::model::recommend) orphans: Highest,
    unit: Option<Unit>,
    /// Memory of TCP, and of UDP, pages.
    pub(in crate::model::recommend) memory: [Highest; 2],
    /// Entries of both neighbour tables.
    pub(in crate::model::recommend) neighbours: [Highest; 2],
    pub(in crate::model::recommend) tracked: Highest,
    limits: Limits,
    /// Whether a congestion mark was received in the last hour, as far as that is known.
    pub(in crate::model::recommend) has_marks: Option<bool>,
    /// After so many seconds without a packet something on the way forgets a connection.
    pub(in crate::model::recommend) idle_timeout: Option<u64>,
    marks: Option<u64>,
    marks6: u64,
    last_mark: Option<Instant>,
    /// Devices but the loopback one that are up and have routes.
    pub(in crate::model::recommend) routed: Vec<String>,
}

/// What sockstat counts memory in, and a page, bytes.
#[derive(Debug, Clone, Copy)]
struct Unit {
    bytes: u64,
    page: u64,
}

impl Unit {
    fn pages(self, memory: u64) -> u64 {
        memory.saturating_mul(self.bytes) / self.page
    }
}

impl Host {
    pub(super) fn observe(&mut self, now: Instant, snapshot: &Snapshot, signs: &mut Signs) {
        self.idle_timeout = snapshot.declared.limits.idle_timeout.map(|timeout| timeout.as_secs());
        if let Some(limits) = &snapshot.socket_limits {
            self.limits = limits.clone();
        }
        if let Some(facts) = &snapshot.facts {
            self.unit = Some(Unit { bytes: facts.memory_quantum(), page: facts.constants.page_size.max(1) });
        }
        if let Some(counters) = &snapshot.snmp6 {
            self.marks6 = counters.get("Ip6", "InCEPkts").unwrap_or(0);
        }
        if let Some(netstat) = &snapshot.netstat {
            let opened = snapshot.snmp.as_ref().and_then(|counters| counters.get("Tcp", "PassiveOpens"));
            let opened = opened.map(|count| self.passive_opens.take(Some(count)));
            self.observe_netstat(now, netstat, opened, signs);
        }
        if let Some(sockstat) = &snapshot.sockstat {
            self.observe_sockstat(now, sockstat, signs);
        }
        let errors = [(&snapshot.snmp, "Udp"), (&snapshot.snmp6, "Udp6")];
        let errors = errors.map(|(counters, group)| counters.as_ref()?.get(group, "MemErrors"));
        let errors: u64 = rises(&mut self.datagram_errors, errors).iter().sum();
        if errors > 0 && self.is_near_high_mark(1) {
            let what = format!("{errors} datagrams found no memory left to UDP");
            signs.note(now, Sign::UdpMemoryShort, Key::default(), what);
        }
        if let Some(conntrack) = &snapshot.conntrack {
            self.tracked.observe(now, conntrack.entries);
            let statistics = conntrack.statistics.as_ref();
            let chains = self.chains.take(statistics.and_then(|all| all.get("chainlength")));
            if chains > 0 {
                let what = format!("{chains} chains of the table were too long for another flow");
                signs.note(now, Sign::LongChains, Key::default(), what);
            }
        }
        for (table, highest) in snapshot.neighbours.iter().flatten().zip(&mut self.neighbours) {
            highest.observe(now, entries(table));
        }
        if let (Some(links), Some(routes)) = (&snapshot.links, &snapshot.routes) {
            let has_routes = |name: &str| {
                routes.iter().any(|one| one.device == name && one.family == Family::V4 && one.count > 0)
            };
            let routed = links.iter().filter(|link| link.up && !link.loopback && has_routes(&link.name));
            self.routed = routed.map(|link| link.name.clone()).collect();
        }
    }

    /// `opened` is how many connections peers began meanwhile, where that is known.
    fn observe_netstat(&mut self, now: Instant, netstat: &Counters, opened: Option<u64>, signs: &mut Signs) {
        let get = |name| netstat.get("TcpExt", name);
        let mut note = |sign, what| signs.note(now, sign, Key::default(), what);
        let names = ["ListenDrops", "ListenOverflows", "TCPReqQFullDrop"];
        let [drops, overflows, full] = rises(&mut self.listen_drops, names.map(get));
        let others = drops.saturating_sub(overflows.saturating_add(full));
        // As the rules tell it: a flood fills a longer queue as well.
        let few = DIAGNOSES.number("few_opened").map(|share| share * others as f64);
        let is_flood = opened.zip(few).is_some_and(|(opened, few)| (opened as f64) < few);
        if others > 0 && !is_flood {
            note(Sign::SynsDropped, format!("{others} SYNs were dropped while no queue was full"));
        }
        let [sent, back] = rises(&mut self.cookies, ["SyncookiesSent", "SyncookiesRecv"].map(get));
        if sent > 0 && back > sent / 2 {
            note(Sign::CookiesReturned, format!("{back} of {sent} SYN cookies came back"));
        }
        let overflow = get("TCPTimeWaitOverflow");
        if let Some(lost) = self.overflow_rate.take(now, overflow, TIME_WAIT) {
            self.overflow.observe(now, lost);
        }
        let lost = self.time_wait_overflow.take(overflow);
        if lost > 0 {
            note(Sign::TimeWaitOverflow, format!("{lost} sockets found no room in TIME_WAIT"));
        }
        let names = ["TCPMemoryPressures", "TCPMemoryPressuresChrono"];
        let [entered, spent] = rises(&mut self.memory_pressure, names.map(get));
        if entered > 0 || spent > 0 {
            note(Sign::TcpMemoryShort, format!("TCP came under memory pressure {entered} times"));
        }
        let aborts = self.aborts.take(get("TCPAbortOnMemory"));
        if aborts > 0 && self.is_near_high_mark(0) {
            note(Sign::TcpMemoryShort, format!("{aborts} connections were reset for want of memory"));
        } else if aborts > 0 && self.has_orphans() {
            note(Sign::OrphansMany, format!("{aborts} sockets without an owner were reset"));
        }
        let filtered = self.reverse_path.take(get("IPReversePathFilter"));
        if filtered > 0 {
            note(Sign::ReversePathDrops, format!("the reverse-path filter dropped {filtered} packets"));
        }
        self.observe_marks(now, netstat);
    }

    /// What came before the first look may have come just then.
    fn observe_marks(&mut self, now: Instant, netstat: &Counters) {
        let Some(received) = netstat.get("IpExt", "InCEPkts") else { return };
        let delivered = netstat.get("TcpExt", "TCPDeliveredCE").unwrap_or(0);
        let marks = received.saturating_add(delivered).saturating_add(self.marks6);
        if self.marks.replace(marks).unwrap_or(0) < marks {
            self.last_mark = Some(now);
        }
        let is_recent = |at| now.saturating_duration_since(at) <= HOUR;
        self.has_marks = Some(self.last_mark.is_some_and(is_recent));
    }

    fn observe_sockstat(&mut self, now: Instant, sockstat: &Sockstat, signs: &mut Signs) {
        let orphans = sockstat.get("TCP", "orphan").unwrap_or(0);
        self.orphans.observe(now, orphans);
        if let Some(limit) = self
            .limits
            .orphans
            .filter(|limit| orphans > 0 && orphans.saturating_mul(10) >= limit.saturating_mul(9))
        {
            let what = format!("{orphans} sockets had no owner, of {limit} that may");
            signs.note(now, Sign::OrphansMany, Key::default(), what);
        }
        let Some(unit) = self.unit else { return };
        for (highest, protocol) in self.memory.iter_mut().zip(["TCP", "UDP"]) {
            highest.observe(now, unit.pages(sockstat.get(protocol, "mem").unwrap_or(0)));
        }
        let marks = self.limits.tcp_memory_pages;
        if let Some([_, pressure, _]) = marks
            && let Some(used) = sockstat.get("TCP", "mem").map(|used| unit.pages(used))
            && used >= pressure
        {
            let what = format!("TCP held {used} pages of memory, with pressure from {pressure} on");
            signs.note(now, Sign::TcpMemoryShort, Key::default(), what);
        }
    }

    /// Whether sockets without an owner can have met their limit, to which one counts as
    /// up to four (net/ipv4/tcp_timer.c:tcp_out_of_resources).
    fn has_orphans(&self) -> bool {
        self.limits.orphans.is_some_and(|limit| self.orphans.get().saturating_mul(4) >= limit)
    }

    /// Whether TCP, or UDP, had nine tenths of the memory that it may.
    fn is_near_high_mark(&self, protocol: usize) -> bool {
        let marks = [self.limits.tcp_memory_pages, self.limits.udp_memory_pages];
        let highest = self.memory.get(protocol).map_or(0, Highest::get);
        marks
            .get(protocol)
            .copied()
            .flatten()
            .is_some_and(|[.., high]| highest.saturating_mul(10) >= high.saturating_mul(9))
    }
}

fn rises<const N: usize>(counters: &mut [Rise; N], now: [Option<u64>; N]) -> [u64; N] {
    let mut now = now.into_iter();
    counters.each_mut().map(|counter| counter.take(now.next().flatten()))
}

/// Entries of a neighbour table: of the whole host where that is known, else of this
/// namespace.
fn entries(table: &Table) -> u64 {
    let of_host = table.statistics.as_ref().and_then(|statistics| statistics.get("entries"));
    of_host.or_else(|| table.states.map(|states| states.iter().sum())).unwrap_or(0)
}

#[cfg(test)]
impl Host {
    /// Figures of these sizes.
    pub(super) fn fill(&mut self, now: Instant, sizes: [u64; 4]) {
        let all = [&mut self.overflow, &mut self.orphans, &mut self.tracked];
        all.into_iter().zip(sizes).for_each(|(highest, size)| highest.observe(now, size));
        self.memory.iter_mut().chain(&mut self.neighbours).zip(sizes).for_each(|(highest, size)| {
            highest.observe(now, size);
        });
        self.has_marks = Some(false);
        self.routed = vec!["eth0".into(), "eth1".into()];
    }
}
