//! Tables of the host that can fill up: connection tracking and neighbours.

use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::read::Family;
use crate::read::conntrack::Conntrack;
use crate::read::neighbours::{STATES, Table};
use crate::read::tracked;

const ENTRIES: Metric =
    gauge("nettune_conntrack_entries", &[], "Tracked flows of this namespace (nf_conntrack_count).")
        .everywhere();
const LIMIT: Metric =
    gauge("nettune_conntrack_limit", &[], "Most tracked flows (nf_conntrack_max).").everywhere();
const BUCKETS: Metric =
    gauge("nettune_conntrack_buckets", &[], "Hash buckets of the table (nf_conntrack_buckets).");

const BY_FLOW_STATE: Metric = gauge(
    "nettune_conntrack_entries_by_state",
    &["state"],
    "Tracked flows by the state of TCP, or by protocol, as their timeouts go by it; udp_stream has been answered for two seconds. Looked at once a minute at most while more than half of the limit is taken, in the first 65,536 entries by hash, and scaled to nf_conntrack_count.",
)
.everywhere();
const IDLE: Metric = gauge(
    "nettune_conntrack_idle_established_entries",
    &[],
    "Of those, flows in ESTABLISHED without a packet for a day or longer: what is left to them is so much below net.netfilter.nf_conntrack_tcp_timeout_established.",
)
.everywhere();

const STATISTICS: &[(Metric, &str)] = &[
    (
        counter(
            "nettune_conntrack_drops_total",
            &[],
            "Packets dropped because an entry could not be made or inserted; a full table is one reason, a clash another (drop).",
        ).everywhere(),
        "drop",
    ),
    (
        counter(
            "nettune_conntrack_early_drops_total",
            &[],
            "Entries given up to make room in a full table (early_drop).",
        ).everywhere(),
        "early_drop",
    ),
    (
        counter(
            "nettune_conntrack_insert_failed_total",
            &[],
            "Entries not inserted: another flow took the place, or the hash chain was too long; not a full table (insert_failed).",
        ).everywhere(),
        "insert_failed",
    ),
    (
        counter(
            "nettune_conntrack_inserts_total",
            &[],
            "Entries inserted; not counted by every kernel (insert).",
        ),
        "insert",
    ),
    (
        counter(
            "nettune_conntrack_found_total",
            &[],
            "Times address translation met a tuple that was taken (found); every lookup that found an entry, on old kernels.",
        ),
        "found",
    ),
    (
        counter(
            "nettune_conntrack_invalid_total",
            &[],
            "Packets that could not start a flow, or do not fit the state of theirs (invalid).",
        ).everywhere(),
        "invalid",
    ),
    (
        counter(
            "nettune_conntrack_icmp_errors_total",
            &[],
            "ICMP errors without a usable packet inside (icmp_error).",
        ),
        "icmp_error",
    ),
    (
        counter(
            "nettune_conntrack_search_restarts_total",
            &[],
            "Lookups begun anew because the table was resized (search_restart).",
        ),
        "search_restart",
    ),
    (
        counter(
            "nettune_conntrack_clashes_resolved_total",
            &[],
            "Clashes on insertion settled by keeping one entry (clashres).",
        ),
        "clashres",
    ),
    (
        counter(
            "nettune_conntrack_chain_too_long_total",
            &[],
            "Packets dropped because a hash chain was too long: buckets are few (chaintoolong, column chainlength).",
        ).everywhere(),
        "chainlength",
    ),
];

const NEIGHBOURS: Metric = gauge(
    "nettune_neighbour_entries",
    &["family"],
    "Entries of the host's neighbour table, all namespaces together, and those that gc_thresh3 does not count (stat/arp_cache and ndisc_cache, entries).",
);
const THRESHOLD: Metric = gauge(
    "nettune_neighbour_gc_threshold",
    &["family", "threshold"],
    "Entries kept without collection (1), collected when older than 5 s (2), and most entries (3) (gc_thresh1-3).",
);
const BY_STATE: Metric = gauge(
    "nettune_neighbour_entries_by_state",
    &["family", "state"],
    "Neighbour entries of this namespace, by state (RTM_NEWNEIGH). Of other network namespaces, families that have any.",
)
.everywhere();
const NEIGHBOUR_STATISTICS: &[(Metric, &str)] = &[
    (
        counter(
            "nettune_neighbour_table_full_total",
            &["family"],
            "Entries refused because the table was full, all namespaces together (table_fulls).",
        ),
        "table_fulls",
    ),
    (
        counter(
            "nettune_neighbour_forced_gc_total",
            &["family"],
            "Forced collections to make room (forced_gc_runs).",
        ),
        "forced_gc_runs",
    ),
    (counter("nettune_neighbour_allocations_total", &["family"], "Entries made (allocs)."), "allocs"),
    (counter("nettune_neighbour_destroys_total", &["family"], "Entries destroyed (destroys)."), "destroys"),
    (
        counter(
            "nettune_neighbour_resolution_failures_total",
            &["family"],
            "Addresses nobody answered for (res_failed).",
        ),
        "res_failed",
    ),
    (
        counter(
            "nettune_neighbour_unresolved_discards_total",
            &["family"],
            "Packets dropped while their neighbour was being resolved (unresolved_discards).",
        ),
        "unresolved_discards",
    ),
];

pub(super) fn metrics() -> Vec<&'static Metric> {
    let statistics = STATISTICS.iter().map(|(metric, _)| metric);
    let neighbours = NEIGHBOUR_STATISTICS.iter().map(|(metric, _)| metric);
    [&ENTRIES, &LIMIT, &BUCKETS, &BY_FLOW_STATE, &IDLE]
        .into_iter()
        .chain(statistics)
        .chain([&NEIGHBOURS, &THRESHOLD, &BY_STATE])
        .chain(neighbours)
        .collect()
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    if let Some(conntrack) = &snapshot.conntrack {
        write_conntrack(out, conntrack)?;
    }
    match &snapshot.neighbours {
        Some(tables) => write_neighbours(out, tables),
        None => Ok(()),
    }
}

fn write_conntrack(out: &mut Writer<'_>, conntrack: &Conntrack) -> fmt::Result {
    out.single(&ENTRIES, Some(conntrack.entries))?;
    out.single(&LIMIT, conntrack.limit)?;
    out.single(&BUCKETS, conntrack.buckets)?;
    if let Some(found) = &conntrack.tracked {
        let looked_at = found.looked_at.max(1);
        let of_all = |count: u64| (count.saturating_mul(conntrack.entries) + looked_at / 2) / looked_at;
        let states = tracked::STATES.iter().zip(found.states);
        out.family(&BY_FLOW_STATE, states.map(|(state, count)| ([Label::from(*state)], of_all(count))))?;
        out.single(&IDLE, found.idle.map(of_all))?;
    }
    for (metric, column) in STATISTICS {
        let value = conntrack.statistics.as_ref().and_then(|statistics| statistics.get(column));
        out.single(metric, value)?;
    }
    Ok(())
}

fn write_neighbours(out: &mut Writer<'_>, tables: &[Table; 2]) -> fmt::Result {
    let each = || Family::BOTH.into_iter().map(Family::name).zip(tables);
    let statistic = |table: &Table, name: &str| table.statistics.as_ref().and_then(|all| all.get(name));
    out.family(
        &NEIGHBOURS,
        each().filter_map(|(family, table)| Some(([family.into()], statistic(table, "entries")?))),
    )?;
    let thresholds = each().flat_map(|(family, table)| {
        (1u32..)
            .zip(table.thresholds)
            .filter_map(move |(number, threshold)| Some(([Label::from(family), number.into()], threshold?)))
    });
    out.family(&THRESHOLD, thresholds)?;
    let states = each().flat_map(|(family, table)| {
        table.states.into_iter().flat_map(move |counts| {
            STATES
                .iter()
                .zip(counts)
                .map(move |((_, state), count)| ([Label::from(family), (*state).into()], count))
        })
    });
    out.family(&BY_STATE, states)?;
    for (metric, column) in NEIGHBOUR_STATISTICS {
        out.family(
            metric,
            each().filter_map(|(family, table)| Some(([family.into()], statistic(table, column)?))),
        )?;
    }
    Ok(())
}
