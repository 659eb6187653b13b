//! Index numbers of network devices.

use super::{Kernel, Root, Source};

impl Kernel {
    /// The index numbers of these devices in this thread's network namespace; `None` for
    /// one that is not there, or is not told. A device that is made anew has a new number
    /// as a rule (net/core/dev.c:dev_index_reserve, 6.18), so that it can be told from one
    /// of the same name before it.
    pub fn device_indexes(&self, names: &[String]) -> Vec<Option<u32>> {
        match &self.source {
            Source::Live(_) => {
                let socket = rustix::net::socket_with(
                    rustix::net::AddressFamily::INET,
                    rustix::net::SocketType::DGRAM,
                    rustix::net::SocketFlags::CLOEXEC,
                    None,
                )
                .ok();
                let index =
                    |name: &String| rustix::net::netdevice::name_to_index(socket.as_ref()?, name).ok();
                names.iter().map(index).collect()
            }
            Source::Recorded(_) => {
                let path = |name| self.roots.path(Root::Sys, format_args!("class/net/{name}/ifindex"));
                let index = |name| std::fs::read_to_string(path(name)).ok()?.trim().parse().ok();
                names.iter().map(index).collect()
            }
        }
    }
}
