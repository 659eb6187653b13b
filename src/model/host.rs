//! The host, as far as defaults and limits of the kernel follow from it.

use crate::catalogue::Version;
use crate::kernel::Constants;
use crate::read::host::Host;

/// What defaults and limits of the kernel are derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What the host says of itself.
    pub host: Host,
    /// Pages that are not usable for buffers (`/proc/zoneinfo`).
    pub unusable_pages: u64,
    /// Page size, clock ticks and tick rate.
    pub constants: Constants,
    /// From the release string; `None` when that has no numbers.
    pub version: Option<Version>,
}

impl Facts {
    /// Puts them together.
    pub fn new(host: Host, unusable_pages: u64, constants: Constants) -> Self {
        let version = Version::parse(&host.release);
        Self { host, unusable_pages, constants, version }
    }

    /// Whether the vendor of this kernel brings changes of much later releases
    /// back into it, so that its number says little about its defaults: RHEL and
    /// its rebuilds, openEuler, Anolis and Alibaba mark their releases `.elN`,
    /// `.oeN`, `.anN`, `.alN`; SUSE's enterprise kernels end in `-default` after
    /// a number of three parts or more.
    pub fn is_heavily_backported(&self) -> bool {
        let release = self.host.release.as_str();
        let marked = [".el", ".oe", ".an", ".al"].iter().any(|mark| {
            release.match_indices(mark).any(|(index, _)| {
                release[index + mark.len()..].starts_with(|character: char| character.is_ascii_digit())
            })
        });
        let suse = release.strip_suffix("-default").and_then(|rest| rest.split_once('-'));
        marked || suse.is_some_and(|(_, build)| build.matches('.').count() >= 2)
    }

    /// Pages that the kernel counted as usable for buffers when it sized its
    /// tables at boot (mm/page_alloc.c:nr_free_buffer_pages), as near as it can
    /// be told later: within about one in a hundred.
    pub fn buffer_pages(&self) -> u64 {
        self.memory_pages().saturating_sub(self.unusable_pages)
    }

    /// Pages of memory the kernel manages.
    pub fn memory_pages(&self) -> u64 {
        self.host.memory_total / self.constants.page_size.max(1)
    }

    /// The unit in which the kernel accounts socket memory, bytes: a page, or
    /// 4096 before 6.0 (include/net/sock.h, SK_MEM_QUANTUM). `tcp_mem` and
    /// `udp_mem` are in pages on every kernel.
    pub fn memory_quantum(&self) -> u64 {
        let page_based = self.version.is_some_and(|version| version.major >= 6);
        if page_based { self.constants.page_size } else { 4096 }
    }

    /// Buckets of the TCP established hash: stated by the kernel (6.1), or one
    /// for every 128 KiB of memory, rounded up to a power of two and at most
    /// 524288 (net/ipv4/tcp.c:tcp_init).
    pub fn established_hash(&self) -> u64 {
        const LIMIT: u64 = 512 << 10;
        let by_memory = || (self.host.memory_total >> 17).max(1).next_power_of_two();
        self.host.established_hash.unwrap_or_else(|| by_memory().min(LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_kernels_are_told_by_their_release() {
        let facts = |release: &str| {
            let host = Host { release: release.into(), ..Host::default() };
            Facts::new(
                host,
                0,
                Constants { page_size: 4096, clock_ticks: 100, hz: 250, machine: "x86_64".into() },
            )
        };
        assert!(facts("4.18.0-553.el8_10.x86_64").is_heavily_backported());
        assert!(!facts("6.1.0-28-amd64").is_heavily_backported());
        assert!(facts("4.19.90-2112.8.0.0131.oe1.x86_64").is_heavily_backported());
        assert!(facts("5.14.21-150500.55.19-default").is_heavily_backported());
        assert!(!facts("6.5.4-1-default").is_heavily_backported());
        assert!(!facts("5.10.0.elastic").is_heavily_backported());
        assert_eq!(facts("next").version, None);
    }
}
