//! What bounds the buffers of TCP connections in this namespace.

use super::{sockstat, sysctl};
use crate::kernel::Kernel;

/// Bounds of buffers; `None` where the key is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpLimits {
    /// Last number of `net.ipv4.tcp_wmem`: what a send buffer may grow to, bytes.
    pub wmem_max: Option<u64>,
    /// Last number of `net.ipv4.tcp_rmem`: what a receive buffer may grow to, bytes.
    pub rmem_max: Option<u64>,
    /// `net.core.wmem_max`: half of what a program may set, bytes.
    pub core_wmem_max: Option<u64>,
    /// `net.core.rmem_max`, likewise.
    pub core_rmem_max: Option<u64>,
    /// `net.ipv4.tcp_slow_start_after_idle`: whether the kernel resets the congestion
    /// window of a connection that was idle.
    pub slow_start_after_idle: Option<u64>,
    /// First number of `net.ipv4.tcp_mem`, pages: above it send buffers grow no more
    /// (net/ipv4/tcp_input.c:tcp_should_expand_sndbuf).
    pub mem_low: Option<u64>,
    /// Memory of all TCP sockets, pages. `None` where pages are not 4096 bytes: what
    /// sockstat counts in is that on every kernel before 6.0, and a page since.
    pub mem: Option<u64>,
}

impl TcpLimits {
    /// Whether TCP as a whole holds more memory than the low mark.
    pub fn is_memory_low(&self) -> Option<bool> {
        Some(self.mem? >= self.mem_low?)
    }
}

/// What can be read of them. What cannot is `None`: it is `sysctl` and `sockstat` that
/// tell of the failure, and a cause that cannot be told is unknown.
pub fn read(kernel: &mut Kernel) -> TcpLimits {
    // Older kernels show some in the initial namespace only.
    let single = |kernel: &mut _, path| sysctl::read_global_unsigned(kernel, path).ok().flatten();
    let single = |kernel: &mut _, path| single(kernel, path).map(|[value]| value);
    let mem: Option<[u64; 3]> = sysctl::read_global_unsigned(kernel, "net/ipv4/tcp_mem").ok().flatten();
    TcpLimits {
        core_wmem_max: single(kernel, "net/core/wmem_max"),
        core_rmem_max: single(kernel, "net/core/rmem_max"),
        mem_low: mem.map(|[low, _, _]| low),
        ..read_own(kernel)
    }
}

/// The same in another namespace than ours, where there is `ours` of what all share.
pub fn read_elsewhere(kernel: &mut Kernel, ours: &TcpLimits) -> TcpLimits {
    let TcpLimits { core_wmem_max, core_rmem_max, mem_low, .. } = *ours;
    TcpLimits { core_wmem_max, core_rmem_max, mem_low, ..read_own(kernel) }
}

/// Without what all namespaces share.
fn read_own(kernel: &mut Kernel) -> TcpLimits {
    let triple = |kernel: &mut _, path| sysctl::read_unsigned(kernel, path).ok().flatten();
    let most = |kernel: &mut _, path| triple(kernel, path).map(|[_, _, most]| most);
    let idle = sysctl::read_unsigned(kernel, "net/ipv4/tcp_slow_start_after_idle").ok().flatten();
    let countable = kernel.constants().page_size == 4096;
    let used = sockstat::read(kernel).ok().and_then(|found| found.get("TCP", "mem"));
    TcpLimits {
        wmem_max: most(kernel, "net/ipv4/tcp_wmem"),
        rmem_max: most(kernel, "net/ipv4/tcp_rmem"),
        slow_start_after_idle: idle.map(|[value]| value),
        mem: used.filter(|_| countable),
        ..TcpLimits::default()
    }
}
