use std::fmt::Write;

use super::alerts::proof;
use super::rules::expression;
use super::values::Values;
use crate::catalogue::diagnoses::Diagnosis;
use crate::catalogue::text::{Piece, Text};
use crate::catalogue::{CATALOGUE, Scope};

/// `alerts/runbooks/ALERT.md`
///
/// # Errors
/// A name that stands for nothing.
pub(super) fn render(diagnosis: &Diagnosis, values: &Values) -> Result<String, String> {
    let emphasised = |name: &str| format!("*{}*", name.replace('_', " "));
    let words = |text: &Text| prose(text, diagnosis, values, emphasised);
    // Among the stars of a shell emphasis would be lost.
    let in_command = |text: &Text| prose(text, diagnosis, values, str::to_uppercase);
    let mut text = format!("# {}\n\n", diagnosis.alert);
    let out = &mut text;
    let blame = match &diagnosis.parameter {
        Some(name) => format!("{}: `{name}`", diagnosis.blame.name()),
        None => diagnosis.blame.name().to_owned(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "Severity {}, blame {blame}.\n\n## What it means\n", diagnosis.severity.name());
    let _ = writeln!(out, "{}\n", words(&diagnosis.why)?);
    let held = match values.hold(&diagnosis.hold)?.as_str() {
        "0s" => "holds".to_owned(),
        time => format!("has held for {time}"),
    };
    let _ = writeln!(out, "It fires when all of this {held}:\n");
    for term in &diagnosis.terms {
        let _ = writeln!(out, "- {}", values.words(&proof(term.is.as_deref(), term.not.as_deref()))?);
    }
    if let Some(parameter) = diagnosis.parameter.as_deref().and_then(|name| CATALOGUE.get(name)) {
        let _ = writeln!(
            out,
            "\n## What `{}` bounds\n\n{}\n\n{}",
            parameter.name, parameter.bounds, parameter.cautions
        );
    }
    if !diagnosis.never.is_empty() {
        let _ = writeln!(out, "\n## What is not to blame\n");
        for (what, because) in &diagnosis.never {
            let _ = writeln!(out, "- {what}: {}.", because.trim_end_matches('.'));
        }
    }
    let _ = writeln!(out, "\n## Check by hand\n\n```sh\n{}\n```", diagnosis.by_hand.join("\n"));
    let usual = |steps: &[Text], sentence: &str| match steps {
        [] => Ok(vec![sentence.to_owned()]),
        steps => steps.iter().map(in_command).collect::<Result<_, _>>(),
    };
    let name = diagnosis.parameter.as_deref().unwrap_or("PARAMETER");
    let steps = [
        ("Apply", usual(&diagnosis.apply, &set(name))?),
        ("Keep", usual(&diagnosis.persist, &keep(name))?),
        ("Undo", usual(&diagnosis.rollback, &undo(name))?),
        ("Verify", usual(&diagnosis.verify, "")?),
    ];
    for (title, steps) in steps {
        let _ = writeln!(out, "\n## {title}\n");
        for step in steps {
            // A sentence among commands is a comment of the shell.
            let step = step.strip_prefix("# ").unwrap_or(&step);
            let _ = writeln!(out, "- {}", step.replace('\n', "\n  "));
        }
    }
    let _ = writeln!(out, "\n## When to leave it alone\n\n{}\n", diagnosis.ignore.trim());
    let _ = writeln!(out, "## The rule\n\n```\n{}\n```\n\n## Sources\n", expression(diagnosis, values)?);
    for source in &diagnosis.sources {
        let _ = writeln!(out, "- `{source}`");
    }
    Ok(text)
}

fn set(name: &str) -> String {
    let place = match CATALOGUE.get(name).map(|parameter| parameter.scope) {
        Some(Scope::Initial) => "on the host: no namespace has its own",
        _ => "in the namespace that the page names, or else on the host",
    };
    format!("The command of the page: `sysctl -w {name}=VALUE`, {place}.")
}

fn keep(name: &str) -> String {
    format!(
        "The command of the page, which makes a file below /etc/sysctl.d that is read last, with the line \
        `{name} = VALUE`. For a container its own settings keep it, not the host's files."
    )
}

fn undo(name: &str) -> String {
    format!("The command of the page: `sysctl -w {name}=FORMER`, and the file that keeps it is removed.")
}

/// A text for all hosts: what depends on one stands for itself, as `show` writes it.
fn prose(
    text: &Text,
    diagnosis: &Diagnosis,
    values: &Values,
    show: impl Fn(&str) -> String,
) -> Result<String, String> {
    let name = diagnosis.parameter.as_deref().unwrap_or("PARAMETER");
    text.pieces()
        .iter()
        .map(|piece| match piece {
            Piece::Words(words) => values.words(words),
            Piece::Blank { name: blank, .. } => Ok(match blank.as_str() {
                "set" => set(name),
                "keep" => keep(name),
                "undo" => undo(name),
                "own_file" => format!("/etc/sysctl.d/99-zz-nettune-{name}.conf"),
                "enter" => String::new(),
                // A sentence that not every page has.
                blank if diagnosis.evidence.get(blank).is_some_and(|known| known.otherwise.is_empty()) => {
                    String::new()
                }
                blank => show(blank),
            }),
        })
        .collect()
}
