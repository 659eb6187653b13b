//! Every parser of the project by name. The fuzz target of texts shares this file.

use nettune::catalogue::CATALOGUE;
use nettune::kernel::Malformed;
use nettune::model::persisted::{Taking, written};
use nettune::read::*;

/// A parser whose result does not matter.
type Parser = fn(&[u8]) -> Result<(), Malformed>;

const PARSERS: &[(&str, Parser)] = &[
    ("counters pairs", |bytes| counters::parse_pairs(bytes).map(drop)),
    ("counters lines", |bytes| counters::parse_lines(bytes).map(drop)),
    ("sockstat", |bytes| sockstat::parse(bytes).map(drop)),
    ("softnet", |bytes| softnet::parse(bytes, None).map(drop)),
    ("softnet with CPUs", |bytes| softnet::parse(bytes, Some(&[0, 2])).map(drop)),
    ("softirqs", |bytes| softirqs::parse(bytes).map(drop)),
    ("cpu", |bytes| cpu::parse(bytes).map(drop)),
    ("interrupts", |bytes| interrupts::parse(bytes, |_, _| true).map(drop)),
    ("statistics", |bytes| statistics::parse(bytes).map(drop)),
    ("memory", |bytes| host::parse_memory(bytes).map(drop)),
    ("watermarks", |bytes| {
        host::parse_unusable(bytes);
        Ok(())
    }),
    ("process", |bytes| process::parse(bytes).map(drop)),
    ("boot time", |bytes| {
        process::parse_boot_time(bytes);
        Ok(())
    }),
    ("sysctl numbers", |bytes| sysctl::parse_numbers(bytes, 3).map(drop)),
    ("sysctl text", |bytes| sysctl::parse_text(bytes).map(drop)),
    ("steering mask", |bytes| steering::parse_mask(bytes).map(drop)),
    ("steering count", |bytes| steering::parse_count(bytes).map(drop)),
    ("speed", |bytes| {
        links::parse_speed(bytes);
        Ok(())
    }),
    ("driver counters", |bytes| {
        nic::parse_driver_counters(bytes);
        Ok(())
    }),
    ("links", |bytes| links::parse(bytes).map(drop)),
    ("qdiscs", |bytes| qdiscs::parse(bytes).map(drop)),
    ("connections", |bytes| connections::walk(bytes, |_| ())),
    ("closes", |bytes| closes::walk(bytes, |_| ())),
    ("listeners", |bytes| listeners::parse(&mut Vec::new(), bytes)),
    ("UDP sockets", |bytes| udp::parse(&mut Vec::new(), bytes)),
    ("ports", |bytes| listeners::parse_ports(bytes).map(drop)),
    ("mounts", |bytes| cgroups::parse_mount(bytes).map(drop)),
    ("namespaces", |bytes| namespaces::parse_mounts(bytes).map(drop)),
    ("cgroups of a process", |bytes| {
        namespaces::parse_cgroups(bytes);
        Ok(())
    }),
    ("process name", |bytes| {
        processes::parse_name(bytes);
        Ok(())
    }),
    ("neighbours", |bytes| neighbours::count_states(&mut Default::default(), bytes)),
    ("addresses", |bytes| addresses::count_addresses(&mut Default::default(), bytes)),
    ("routes", |bytes| addresses::count_routes(&mut Default::default(), bytes)),
    ("rings", |bytes| nic::parse_rings(bytes).map(drop)),
    ("channels", |bytes| nic::parse_channels(bytes).map(drop)),
    ("boot id", |bytes| place::parse_boot(bytes).map(drop)),
    ("ledger", |bytes| nettune::ledger::parse(bytes).first.map_or(Ok(()), Err)),
    ("boot files", |bytes| {
        for loader in persisted::Loader::BOTH {
            for line in persisted::parse(bytes, loader) {
                if let persisted::Content::Assignment { path, .. } = line.content {
                    persisted::matches(&path, "net/ipv4/conf/eth0/rp_filter");
                }
            }
        }
        Ok(())
    }),
    ("values in boot files", |bytes| {
        let (text, taking) = (String::from_utf8_lossy(bytes), Taking::of(None, Some(72)));
        for parameter in &CATALOGUE.parameters {
            written(parameter, &text, taking);
        }
        Ok(())
    }),
    ("module lists", |bytes| {
        persisted::parse_module_names(bytes);
        persisted::parse_modprobe(bytes);
        persisted::parse_module_files(bytes);
        persisted::parse_loaded(bytes);
        persisted::parse_packaged(bytes);
        Ok(())
    }),
    ("owners' files", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        owners::parse_ini(&text);
        owners::parse_profile(&text);
        owners::parse_profile_names(&text);
        owners::parse_kube_proxy(&text);
        owners::parse_commands(&text);
        owners::parse_cloud_config(&text);
        Ok(())
    }),
    ("tracked flows", |bytes| tracked::Tracked::default().add(bytes, Some(432_000))),
    ("conntrack statistics", |bytes| conntrack::add_statistics(&mut Default::default(), bytes)),
];

/// Gives the bytes to all of them; what refuses them must say where and why.
pub(crate) fn all_survive(bytes: &[u8]) {
    for (name, parse) in PARSERS {
        if let Err(error) = parse(bytes) {
            assert!(
                error.line > 0 && !error.item.is_empty() && !error.expected.is_empty(),
                "{name}: {error}"
            );
        }
    }
}
