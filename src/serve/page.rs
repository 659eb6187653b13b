//! The page for people.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use super::answer::{Answer, with_body};
use super::{App, scrape};
use crate::collect::{SOURCES, Selection};
use crate::ledger;
use crate::model::Report;
use crate::model::changes::Change;

const TEMPLATE: &str = include_str!("page.html");

/// A person does not wait longer for the table than this.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn answer(app: &App) -> Answer {
    let snapshot = scrape::within(app, Selection::all(), PATIENCE.min(app.limits.scrape)).await;
    let mut notices = Vec::new();
    let (reports, recommended) = match &snapshot {
        Ok(snapshot) => (&snapshot.reports[..], &snapshot.recommendations[..]),
        Err(problem) => {
            notices.push(format!("The sources could not be read: {problem}."));
            (&[][..], &[][..])
        }
    };
    let recommended: Vec<_> = recommended.iter().map(|one| (one.assignment(), one.reason.as_str())).collect();
    if !app.reload.successful() {
        notices
            .push("The last reload failed; the configuration before it is in use. See the log.".to_owned());
    }
    let ledger = app.collector.ledger();
    let changes = (&ledger.changes()[..], ledger.figures().persistent);
    let page = render(&app.telemetry_path, &notices, reports, &recommended, changes);
    with_body(StatusCode::OK, "text/html; charset=utf-8", page.into())
}

/// Changes that the page shows; all are at `/changes`.
const CHANGES: usize = 10;

fn render(
    telemetry_path: &str,
    notices: &[String],
    reports: &[Report],
    recommended: &[(String, &str)],
    (changes, persistent): (&[Arc<Change>], bool),
) -> String {
    let notice: String =
        notices.iter().map(|notice| format!("<p class=\"notice\">{}</p>\n", escape(notice))).collect();
    let rows: String = reports.iter().map(row).collect();
    let kept = if persistent { "They survive a restart." } else { "They are kept in memory only." };
    let note = match changes.len() {
        0 => format!("None was seen. {kept}"),
        count => format!("{} of {count}, the last first. {kept}", count.min(CHANGES)),
    };
    let changes: String = changes.iter().rev().take(CHANGES).map(|change| change_row(change)).collect();
    let recommended_note = match recommended.len() {
        0 => "None: nothing that was seen in the last hour calls for another value.",
        _ => "What was seen in the last hour, or the running value itself, calls for these.",
    };
    let recommended: String = recommended.iter().map(recommended_row).collect();
    // What comes from outside is filled in last, so that it is not searched.
    TEMPLATE
        .replace("{version}", env!("CARGO_PKG_VERSION"))
        .replace("{revision}", &escape(crate::REVISION))
        .replace("{telemetry_path}", &escape(telemetry_path))
        .replace("{notice}", &notice)
        .replace("{changes_note}", &note)
        .replace("{recommended_note}", recommended_note)
        .replace("{rows}", &rows)
        .replace("{recommended}", &recommended)
        .replace("{changes}", &changes)
}

fn recommended_row((assignment, reason): &(String, &str)) -> String {
    format!("<tr><td><code>{}</code></td><td>{}</td></tr>\n", escape(assignment), escape(reason))
}

fn change_row(change: &Change) -> String {
    let (at, row) = (change.at, ledger::row(change));
    format!("<tr><td class=\"when\">{at:.0}</td><td>{}</td></tr>\n", escape(&row))
}

fn row(report: &Report) -> String {
    let help = SOURCES.iter().find(|source| source.name == report.source).map_or("", |source| source.help);
    let outcome = report.outcome.name();
    let milliseconds = report.duration.as_secs_f64() * 1e3;
    format!(
        "<tr><td><code>{}</code></td><td>{}</td><td class=\"{outcome}\">{outcome}</td><td>{}</td>\
         <td class=\"time\">{milliseconds:.2} ms</td></tr>\n",
        escape(report.source),
        escape(help),
        escape(report.outcome.detail()),
    )
}

/// Text as it may stand in an element or a quoted attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;

    #[test]
    fn what_the_host_says_is_escaped() {
        let outcome = Outcome::Failed(r#"<script>alert("1")</script> & 'x'"#.to_owned());
        let report = Report { source: "netstat", outcome, duration: Duration::from_micros(1234) };
        let recommended = [("a.b = 1 2".to_owned(), "<1 & 2>.")];
        let page = render("/metrics", &["a < b".to_owned()], &[report], &recommended, (&[], false));
        assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;"));
        assert!(!page.contains("<script"));
        assert!(page.contains("<p class=\"notice\">a &lt; b</p>"));
        assert!(page.contains("<td class=\"failed\">failed</td>"));
        assert!(page.contains("<code>a.b = 1 2</code></td><td>&lt;1 &amp; 2&gt;."));
        assert!(page.contains("1.23 ms"));
        assert!(page.contains("href=\"/metrics\""));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_leaves_no_placeholder() {
        let page = render("/metrics", &[], &[], &[], (&[], true));
        assert!(!page.contains("//") && !page.contains("src="), "{page}");
        for placeholder in [
            "{version}",
            "{revision}",
            "{telemetry_path}",
            "{notice}",
            "{rows}",
            "{recommended_note}",
            "{recommended}",
            "{changes_note}",
            "{changes}",
        ] {
            assert!(!page.contains(placeholder));
        }
    }
}
