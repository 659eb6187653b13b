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

| metric | type | labels | meaning |
|---|---|---|---|
";

/// `docs/metrics.md`
pub(super) fn render() -> String {
    let mut text = HEAD.to_owned();
    for metric in metrics::all() {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let help = metric.help.replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "| `{}` | {} | {} | {help} |", metric.name, metric.kind.name(), labels.join(", "));
    }
    text
}
