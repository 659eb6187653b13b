//! Connection tracking: sizes from `/proc/sys/net/netfilter`, statistics from
//! `/proc/net/stat/nf_conntrack` or, where the kernel has no such file, over
//! ctnetlink (include/uapi/linux/netfilter/nfnetlink_conntrack.h, 5.10-6.18).

use super::statistics::{self, Statistics};
use super::sysctl;
use super::tracked::Tracked;
use crate::kernel::netlink::{be32_at, messages};
use crate::kernel::{Error, Kernel, Malformed, Request, Result, Root};

/// The table and its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conntrack {
    /// `nf_conntrack_count`: entries now.
    pub entries: u64,
    /// `nf_conntrack_max`: most entries.
    pub limit: Option<u64>,
    /// `nf_conntrack_buckets`: hash buckets.
    pub buckets: Option<u64>,
    /// Counters under the names of `/proc/net/stat/nf_conntrack`.
    pub statistics: Option<Statistics>,
    /// Entries by state, which are looked at on another clock.
    pub tracked: Option<Tracked>,
}

/// `enum ctattr_stats_cpu`, by the names of the file's columns.
const ATTRIBUTES: [(u16, &str); 10] = [
    (2, "found"),
    (4, "invalid"),
    (8, "insert"),
    (9, "insert_failed"),
    (10, "drop"),
    (11, "early_drop"),
    (12, "icmp_error"),
    (13, "search_restart"),
    (14, "clashres"),
    // The counter is chaintoolong; the file calls its column chainlength (5.15).
    (15, "chainlength"),
];

/// Adds IPCTNL_MSG_CT_GET_STATS_CPU replies, one a CPU. A counter that this
/// kernel does not send stays absent.
///
/// # Errors
/// A message that is cut.
pub fn add_statistics(sums: &mut Statistics, bytes: &[u8]) -> std::result::Result<(), Malformed> {
    for message in messages(bytes) {
        // struct nfgenmsg is 4 bytes.
        for attribute in message?.attributes(4) {
            let known = ATTRIBUTES.iter().find(|(kind, _)| *kind == attribute.kind);
            if let (Some((_, name)), Some(value)) = (known, be32_at(attribute.value, 0)) {
                sums.add(name, value);
            }
        }
    }
    Ok(())
}

/// Reads all of it; what was read before a failure is returned with it.
///
/// # Errors
/// Absent when the module is not loaded; failed when the statistics can be had
/// only over netlink and the privilege for that is missing.
pub fn read(kernel: &mut Kernel) -> (Option<Conntrack>, Result<()>) {
    let (found, sizes) = read_sizes(kernel);
    let Some(mut conntrack) = found else { return (None, sizes) };
    let statistics = read_statistics(kernel).map(|statistics| conntrack.statistics = statistics);
    (Some(conntrack), sizes.and(statistics))
}

/// The same without statistics.
///
/// # Errors
/// Absent when the module is not loaded.
pub fn read_sizes(kernel: &mut Kernel) -> (Option<Conntrack>, Result<()>) {
    let path = "net/netfilter/nf_conntrack_count";
    let entries = match sysctl::read_unsigned(kernel, path) {
        Ok(Some([entries])) => entries,
        Ok(None) => {
            // The same error that the missing file gives, with its path.
            let absent = kernel.read(Root::Proc, format_args!("sys/{path}")).map(drop);
            return (None, absent);
        }
        Err(error) => return (None, Err(error)),
    };
    let mut conntrack = Conntrack { entries, ..Conntrack::default() };
    let mut size = |path: &str, field: &mut Option<u64>| {
        sysctl::read_unsigned(kernel, path).map(|value| *field = value.map(|[value]| value))
    };
    let limit = size("net/netfilter/nf_conntrack_max", &mut conntrack.limit);
    let buckets = size("net/netfilter/nf_conntrack_buckets", &mut conntrack.buckets);
    (Some(conntrack), limit.and(buckets))
}

fn read_statistics(kernel: &mut Kernel) -> Result<Option<Statistics>> {
    let file = kernel.parse(Root::Net, "stat/nf_conntrack", statistics::parse);
    let statistics = match file {
        Err(error) if error.is_absent() => kernel.ask(Request::ConntrackStatistics, add_statistics),
        other => other,
    };
    match statistics {
        Err(error) if Error::is_absent(&error) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlink_statistics_are_summed_over_cpus() {
        // Two messages: nlmsghdr, nfgenmsg, CTA_STATS_DROP (10) = 3.
        let message = |value: u32| {
            let mut bytes = Vec::new();
            bytes.extend(28u32.to_ne_bytes());
            bytes.extend([0; 12]);
            bytes.extend([0; 4]);
            bytes.extend(8u16.to_ne_bytes());
            bytes.extend(10u16.to_ne_bytes());
            bytes.extend(value.to_be_bytes());
            bytes
        };
        let mut statistics = Statistics::default();
        add_statistics(&mut statistics, &[message(3), message(4)].concat()).unwrap();
        assert_eq!(statistics.get("drop"), Some(7));
        assert_eq!(statistics.get("chainlength"), None, "not sent is not zero");
        // One CPU's counter starts anew; the sum goes on.
        add_statistics(&mut statistics, &message(u32::MAX)).unwrap();
        assert_eq!(statistics.get("drop"), Some(6));
        assert!(add_statistics(&mut statistics, &message(1)[..20]).is_err());
    }
}
