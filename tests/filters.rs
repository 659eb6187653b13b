//! Port filters, as the running kernel applies them.

use std::net::{Ipv4Addr, TcpStream};

use nettune::kernel::sock_diag::{PortFilter, Scope};
use nettune::kernel::{Kernel, Roots};
use nettune::read::{Family, connections};

use crate::listeners::listen;
use crate::namespace::Namespace;

/// Ports of every connection, the local one first.
fn ports(kernel: &mut Kernel, scope: Scope<'_>) -> Vec<(u16, u16)> {
    let mut found = Vec::new();
    let each = |connection: &connections::Connection| found.push((connection.port, connection.peer_port));
    connections::read(kernel, Family::V4, scope, each).unwrap();
    found.sort_unstable();
    found
}

#[test]
fn the_kernel_passes_what_the_filter_says() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run("sysctl -qw net.ipv4.ip_local_port_range='40000 40200'");
    namespace.inside(|| {
        // One server listens on a port that a client may get.
        let servers = [9001, 40_100].map(|port| listen((Ipv4Addr::LOCALHOST, port).into(), 64));
        let mut held = Vec::new();
        for server in &servers {
            for _ in 0..40 {
                let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
                held.push((client, server.accept().unwrap().0));
            }
        }
        let mut kernel = Kernel::live(Roots::default());
        let all = ports(&mut kernel, Scope::default());
        assert_eq!(all.len(), 160);
        let mut parts = Vec::new();
        for (own, peer) in
            [(0..=40_049, 0..=40_029), (40_050..=40_149, 40_030..=40_030), (40_150..=65_535, 40_031..=65_535)]
        {
            let filter = PortFilter { ephemeral: Some(40_000..=40_200), listening: vec![40_100], own, peer };
            // Reading drops what does not pass, so it must be the kernel that does.
            let request = nettune::kernel::Request::TcpConnections;
            let scope = Scope { filter: Some(&filter), ..Scope::default() };
            let mut passed = Vec::new();
            kernel
                .walk(request, scope, |bytes| {
                    connections::walk(bytes, |one| passed.push((one.port, one.peer_port)))
                })
                .unwrap();
            passed.sort_unstable();
            let expected: Vec<_> =
                all.iter().copied().filter(|(port, peer)| filter.passes(*port, *peer)).collect();
            assert_eq!(passed, expected, "{filter:?}");
            assert!(!passed.is_empty());
            parts.extend(passed);
        }
        let by_peer = PortFilter { ephemeral: None, listening: vec![], own: 0..=0, peer: 9001..=9001 };
        let scope = Scope { filter: Some(&by_peer), ..Scope::default() };
        assert_eq!(ports(&mut kernel, scope).len(), 40);
        // Parts of both ranges make up the whole: each connection is in one.
        parts.sort_unstable();
        assert_eq!(parts, all);
    });
}
