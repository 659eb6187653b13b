use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE, NETLINK_SOCK_DIAG};

/// What can be asked of the kernel over netlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Network devices with their 64-bit statistics.
    Links,
    /// Queueing disciplines of every device.
    Qdiscs,
    /// Neighbour entries of both families.
    Neighbours,
    /// Addresses of every device.
    Addresses,
    /// Routes of every table.
    Routes,
    /// Ring sizes of every device that has rings.
    Rings,
    /// Channel counts of every device that has channels.
    Channels,
    /// Connection tracking statistics, one message a CPU.
    ConntrackStatistics,
    /// Tracked flows, in the order of their hashes.
    ConntrackEntries,
    /// Listening TCP sockets over IPv4, with their memory and drops.
    TcpListeners,
    /// The same over IPv6.
    TcpListeners6,
    /// Of those the ones whose port the kernel chose, over IPv4.
    TcpChosenPorts,
    /// The same over IPv6.
    TcpChosenPorts6,
    /// TCP connections over IPv4, with what the kernel knows of each; those in
    /// TIME_WAIT only where the scope asks for them.
    TcpConnections,
    /// The same over IPv6.
    TcpConnections6,
    /// UDP sockets over IPv4, with their memory and drops.
    UdpSockets,
    /// The same over IPv6.
    UdpSockets6,
}

impl Request {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Links,
        Self::Qdiscs,
        Self::Neighbours,
        Self::Addresses,
        Self::Routes,
        Self::Rings,
        Self::Channels,
        Self::ConntrackStatistics,
        Self::ConntrackEntries,
        Self::TcpListeners,
        Self::TcpListeners6,
        Self::TcpChosenPorts,
        Self::TcpChosenPorts6,
        Self::TcpConnections,
        Self::TcpConnections6,
        Self::UdpSockets,
        Self::UdpSockets6,
    ];

    /// The name errors and recordings use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Qdiscs => "qdiscs",
            Self::Neighbours => "neighbours",
            Self::Addresses => "addresses",
            Self::Routes => "routes",
            Self::Rings => "rings",
            Self::Channels => "channels",
            Self::ConntrackStatistics => "conntrack-statistics",
            Self::ConntrackEntries => "conntrack-entries",
            Self::TcpListeners => "tcp-listeners",
            Self::TcpListeners6 => "tcp6-listeners",
            Self::TcpChosenPorts => "tcp-chosen-ports",
            Self::TcpChosenPorts6 => "tcp6-chosen-ports",
            Self::TcpConnections => "tcp-connections",
            Self::TcpConnections6 => "tcp6-connections",
            Self::UdpSockets => "udp-sockets",
            Self::UdpSockets6 => "udp6-sockets",
        }
    }

    /// Netlink protocol that answers.
    pub(super) fn protocol(self) -> isize {
        match self {
            Self::Rings | Self::Channels => NETLINK_GENERIC,
            Self::ConntrackStatistics | Self::ConntrackEntries => NETLINK_NETFILTER,
            Self::TcpListeners
            | Self::TcpListeners6
            | Self::TcpChosenPorts
            | Self::TcpChosenPorts6
            | Self::TcpConnections
            | Self::TcpConnections6
            | Self::UdpSockets
            | Self::UdpSockets6 => NETLINK_SOCK_DIAG,
            _ => NETLINK_ROUTE,
        }
    }
}

/// Message type and payload of a request whose fixed header may be all zero:
/// every family, every device. Sizes are those of `struct ifinfomsg`, `tcmsg`,
/// `ndmsg`, `ifaddrmsg`, `rtmsg` (include/uapi/linux/rtnetlink.h) and
/// `nfgenmsg` (include/uapi/linux/netfilter/nfnetlink.h).
pub(super) fn zeroed(request: Request) -> Option<(u16, usize)> {
    const RTM_GETLINK: u16 = 18;
    const RTM_GETADDR: u16 = 22;
    const RTM_GETROUTE: u16 = 26;
    const RTM_GETNEIGH: u16 = 30;
    const RTM_GETQDISC: u16 = 38;
    const NFNL_SUBSYS_CTNETLINK: u16 = 1;
    const IPCTNL_MSG_CT_GET: u16 = 1;
    const IPCTNL_MSG_CT_GET_STATS_CPU: u16 = 4;
    match request {
        Request::Links => Some((RTM_GETLINK, 16)),
        Request::Qdiscs => Some((RTM_GETQDISC, 20)),
        Request::Neighbours => Some((RTM_GETNEIGH, 12)),
        Request::Addresses => Some((RTM_GETADDR, 8)),
        Request::Routes => Some((RTM_GETROUTE, 12)),
        Request::ConntrackStatistics => Some((NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS_CPU, 4)),
        Request::ConntrackEntries => Some((NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, 4)),
        _ => None,
    }
}
