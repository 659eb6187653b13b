use std::fmt::Write;

use crate::metrics;

const HEAD: &str = "\
# Metrics

Rendered from the definitions in `src/metrics` by `nettune render`; do not edit.

Names end in their unit; counters end in `_total`. Help names the kernel's own
counter as `nstat` prints it, or the file or netlink message the value comes
from. A metric whose source does not exist on this kernel, in this network
namespace or on this host has no sample: absent is never zero. Whether a source
was read, is absent or failed is in `nettune_collector_success` and
`nettune_collector_absent`.

A histogram has `_bucket`, `_sum` and `_count` in text. In protobuf it is a native
histogram as well, with buckets that each end about 9 % above the one before, or
further apart where more than 160 would be in use.

Metrics with (`netns`) among their labels are also shown of other network namespaces,
where `--netns` asks for them, with the name of the namespace. Of parameters those are
shown whose value is another than the exporter's own namespace has, or than the
kernel's default, and those that were seen to change. docs/support.md tells what else is
left out, and why.

Headings name the collectors that `collect[]` and `--no-collector.NAME` select.
";

const TABLE: &str = "| metric | type | labels | meaning |\n|---|---|---|---|";

/// `docs/metrics.md`
pub(super) fn render() -> String {
    let mut text = HEAD.to_owned();
    for (title, metrics) in metrics::groups() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n## {title}\n\n{TABLE}");
        for metric in metrics {
            let own = metric.labels.iter().map(|label| format!("`{label}`"));
            let labels: Vec<_> = own.chain(metric.everywhere.then(|| "(`netns`)".to_owned())).collect();
            let help = metric.help.replace('|', "\\|");
            let (name, kind, labels) = (metric.name, metric.kind.name(), labels.join(", "));
            let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {help} |");
        }
    }
    text
}
