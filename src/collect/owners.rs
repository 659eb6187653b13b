//! Names for those that sockets belong to: the unit by the cgroup a socket was made
//! in, and where that tells nothing the process that holds it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::kernel::{Error, Kernel, Result};
use crate::model::listeners::Group;
use crate::model::units::{Names, SocketMemory, UnitMemory, unit_of};
use crate::read::listeners::Listener;
use crate::read::{cgroups, processes};

/// Most units that are named of sockets that share address and port.
const UNITS_OF_A_GROUP: usize = 3;

/// What is known of owners.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By cgroup.
    units: Names,
    /// By inode number of the socket. Cookies were counted in each namespace by itself
    /// once (net/core/sock_diag.c:sock_gen_cookie, 5.2), these are not
    /// (net/socket.c:sock_alloc).
    processes: Names,
    /// What the last walks met.
    failed: Option<Arc<Error>>,
}

impl Owners {
    /// Gives each group that has a name of its own the units of its sockets. Where
    /// none is known and the group is in trouble, processes are searched for.
    ///
    /// # Errors
    /// What the last walk met that is neither absent nor forbidden.
    pub(super) fn name(
        &mut self,
        kernel: &mut Kernel,
        now: Instant,
        listeners: &[Listener],
        groups: &mut [Group],
    ) -> Result<()> {
        let sockets_of = |group: &Group| -> Vec<&Listener> {
            // Those of `other` are none.
            let (Ok(address), Ok(port)) = (group.address.parse::<IpAddr>(), group.port.parse::<u16>()) else {
                return Vec::new();
            };
            listeners.iter().filter(|socket| socket.port == port && socket.address == address).collect()
        };
        let sockets: Vec<Vec<&Listener>> = groups.iter().map(sockets_of).collect();
        self.learn_units(kernel, now, sockets.iter().flatten().filter_map(|socket| socket.cgroup));

        let in_trouble = |group: &Group| !group.full.is_zero() || group.drops.is_some_and(|drops| drops > 0);
        let unknown = |socket: &&&Listener| self.unit(socket).is_none() && socket.inode != 0;
        let searched = groups.iter().zip(&sockets).filter(|(group, _)| in_trouble(group));
        let searched = searched.flat_map(|(_, sockets)| sockets.iter().filter(unknown));
        let searched: Vec<u64> = searched.map(|socket| socket.inode.into()).collect();
        self.learn_processes(kernel, now, searched);

        for (group, sockets) in groups.iter_mut().zip(&sockets) {
            let process = |socket: &Listener| self.processes.get(socket.inode.into());
            let names = sockets.iter().filter_map(|socket| self.unit(socket).or_else(|| process(socket)));
            let mut names: Vec<String> = names.map(str::to_owned).collect();
            names.sort_unstable();
            names.dedup();
            names.truncate(UNITS_OF_A_GROUP);
            group.units = names;
        }
        self.failed.clone().map_or(Ok(()), |error| Err(Error::Shared(error)))
    }

    /// Socket memory by unit.
    pub(super) fn by_unit(
        &mut self,
        kernel: &mut Kernel,
        now: Instant,
        memory: &SocketMemory,
    ) -> Vec<UnitMemory> {
        self.learn_units(kernel, now, memory.cgroups());
        memory.by_unit(&self.units)
    }

    fn unit(&self, socket: &Listener) -> Option<&str> {
        self.units.get(socket.cgroup?)
    }

    fn learn_units(&mut self, kernel: &mut Kernel, now: Instant, cgroups: impl Iterator<Item = u64>) {
        let missing = self.units.missing(now, cgroups);
        if missing.is_empty() {
            return;
        }
        if let Some(folders) = self.note(cgroups::read(kernel)) {
            let wanted = folders.into_iter().filter(|(number, _)| missing.contains(number));
            let found = wanted.filter_map(|(number, path)| Some((number, unit_of(&path)?))).collect();
            self.units.learn(missing, found);
        }
    }

    fn learn_processes(&mut self, kernel: &mut Kernel, now: Instant, sockets: Vec<u64>) {
        let missing = self.processes.missing(now, sockets);
        if missing.is_empty() {
            return;
        }
        let inodes = missing.iter().filter_map(|inode| u32::try_from(*inode).ok()).collect();
        if let Some(names) = self.note(processes::read_holders(kernel, &inodes)) {
            let named = names.into_iter().map(|(inode, name)| (inode.into(), name)).collect();
            self.processes.learn(missing, named);
        }
    }

    /// Names are an addition: a host that has or shows none is no failure.
    fn note<T: Default>(&mut self, result: Result<T>) -> Option<T> {
        self.failed = None;
        match result {
            Ok(found) => Some(found),
            Err(error) if error.is_absent() || error.is_permission() => Some(T::default()),
            Err(error) => {
                self.failed = Some(Arc::new(error));
                None
            }
        }
    }
}
