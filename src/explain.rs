//! What there is to know about a parameter, on this host, or about an alert.

use std::fmt::Write;

use crate::catalogue::diagnoses::Severity;
use crate::catalogue::{CATALOGUE, DIAGNOSES, Effect, Parameter, Scope};
use crate::collect::{DeviceFilter, Look};
use crate::kernel::Kernel;
use crate::model::connections::Paths;
use crate::model::parameters::State;
use crate::model::recommend::{Evidence, recommend};
use crate::read::sysctl::Value;
use crate::render;

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Characters of a name that are compared; the time grows with them.
const COMPARED: usize = 80;
/// Names that are offered for one that is unknown.
const NEAREST: usize = 3;

/// Explains a parameter or an alert by its name.
///
/// # Errors
/// The name is unknown; the nearest ones are given.
pub fn explain(name: &str, kernel: &mut Kernel) -> Result<String, String> {
    if let Some(diagnosis) = DIAGNOSES.get(name) {
        return render::runbook(diagnosis);
    }
    let Some(parameter) = CATALOGUE.of(&name.replace('/', ".")) else {
        return Err(format!("no parameter and no alert is called {name}; {}", nearest(name)));
    };
    let look = Look::take(kernel, &DeviceFilter::everything());
    Ok(describe(parameter, look.ok().as_ref()))
}

fn nearest(name: &str) -> String {
    let alerts = DIAGNOSES.diagnoses.iter().map(|diagnosis| diagnosis.alert.as_str());
    let known = CATALOGUE.parameters.iter().map(|parameter| parameter.name.as_str()).chain(alerts);
    let name: String = name.trim().chars().take(COMPARED).collect::<String>().to_lowercase();
    // The last part alone is what people type.
    let distance = |known: &str| {
        let known = known.to_lowercase();
        let short = known.rsplit('.').next().unwrap_or(&known);
        [known.as_str(), short].map(|known| strsim::damerau_levenshtein(&name, known)).into_iter().min()
    };
    let mut all: Vec<_> = known.map(|known| (distance(known), known)).collect();
    all.sort();
    let names: Vec<_> = all.into_iter().take(NEAREST).map(|(_, name)| name).collect();
    format!("did you mean {}?", names.join(", "))
}

fn describe(parameter: &Parameter, look: Option<&Look>) -> String {
    let mut text = format!("{}\n\n", parameter.name);
    let out = &mut text;
    paragraph(out, &parameter.bounds);
    let fields = parameter.fields.join(", ");
    let unit =
        if fields.is_empty() { parameter.unit.clone() } else { format!("{} ({fields})", parameter.unit) };
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<12} {}", indented(value, 13));
    };
    line("Unit", &unit);
    line("Scope", scope(parameter.scope));
    line("Takes effect", effect(parameter.effect));
    let states: Vec<_> =
        look.iter().flat_map(|look| &look.states).filter(|state| is_of(state, parameter)).collect();
    if states.is_empty() {
        line("Here", "this kernel or this network namespace does not have it");
    }
    for state in &states {
        let of = if state.name == parameter.name { String::new() } else { format!("  ({})", state.name) };
        line("Here", &format!("{}{of}", shown(&state.value)));
        if let Some(default) = &state.default {
            line(
                "Default",
                &format!("{} on an untouched kernel of this release and memory", listed(default)),
            );
        }
        line(
            "Undo",
            &format!("sysctl -w {}='{}' takes it back to what it is now", state.name, shown(&state.value)),
        );
    }
    line("Recommended", &recommendations(&states, look));
    let _ = writeln!(text);
    paragraph(&mut text, &parameter.cautions);
    if !parameter.quoted.is_empty() {
        paragraph(&mut text, &quoted(parameter, states.first().copied()));
    }
    let blaming = DIAGNOSES
        .diagnoses
        .iter()
        .filter(|diagnosis| diagnosis.parameter.as_deref() == Some(&parameter.name));
    let mut alerts: Vec<_> = blaming.map(|diagnosis| (diagnosis.severity, &diagnosis.alert)).collect();
    alerts.sort();
    if !alerts.is_empty() {
        let _ = writeln!(text, "Alerts that may blame it; nettune explain NAME tells what each proves:");
        for (severity, alert) in alerts {
            let _ = writeln!(text, "  {alert} ({})", Severity::name(severity));
        }
        let _ = writeln!(text);
    }
    let _ = writeln!(text, "Sources");
    for source in &parameter.sources {
        let _ = writeln!(text, "  {source}");
    }
    text
}

fn is_of(state: &State, parameter: &Parameter) -> bool {
    match parameter.name.split_once('*') {
        Some((before, after)) => state.name.starts_with(before) && state.name.ends_with(after),
        None => state.name == parameter.name,
    }
}

/// From what one look tells; what needs to be watched for a while is not seen.
fn recommendations(states: &[&State], look: Option<&Look>) -> String {
    let facts = look.and_then(|look| look.facts.as_ref());
    let all: Vec<_> = look.iter().flat_map(|look| &look.states).cloned().collect();
    let found = recommend(&all, facts, &Evidence::default(), &Paths::default());
    let mut of_these =
        found.iter().filter(|found| states.iter().any(|state| state.name == found.name)).peekable();
    if of_these.peek().is_none() {
        return "nothing: its value alone is no reason to change it. What connections and queues show over time, \
                nettune serve exports as nettune_sysctl_recommended_value"
            .into();
    }
    of_these.map(|found| format!("{}: {}", found.assignment(), found.reason)).collect::<Vec<_>>().join("; ")
}

/// What lists of settings would do to this host.
fn quoted(parameter: &Parameter, state: Option<&State>) -> String {
    let running = match state.map(|state| &state.value) {
        Some(Value::Numbers(numbers)) => numbers.last().copied(),
        _ => None,
    };
    let told = parameter.quoted.iter().map(|quoted| {
        let number = quoted.split_whitespace().last().and_then(|last| last.parse::<i64>().ok());
        match (running, number) {
            (Some(running), Some(number)) if number < running => {
                format!("the often quoted {quoted} would lower yours")
            }
            (Some(running), Some(number)) if number > running => {
                format!("the often quoted {quoted} would raise yours")
            }
            (Some(_), Some(_)) => format!("the often quoted {quoted} is what you have"),
            _ => format!("often quoted is {quoted}"),
        }
    });
    let told = told.collect::<Vec<_>>().join("; ");
    format!("Lists of settings: {told}. {}", parameter.myth.as_deref().unwrap_or_default())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Numbers(numbers) => listed(numbers),
        Value::Text(text) => text.clone(),
    }
}

fn listed(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespace => "each network namespace has its own value",
        Scope::Initial => "one value for the host, held by the initial network namespace",
        Scope::Device => "each network device has its own",
    }
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::AtOnce => "at once",
        Effect::NewConnections => "for new connections",
        Effect::NewSockets => "for new sockets",
        Effect::NextListen => "when a program calls listen() again",
        Effect::NewDevices => "for new devices and queueing disciplines",
        Effect::NewNamespaces => "for new network namespaces",
        Effect::Reload => "when something is reloaded",
        Effect::None => "never",
    }
}

fn paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}\n", indented(text, 0));
}

/// Lines of a terminal; all but the first begin with blanks.
fn indented(text: &str, blanks: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if blanks + line.chars().count() + word.chars().count() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{:blanks$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_lead_to_their_pattern() {
        let name = |name| CATALOGUE.of(name).map(|found| found.name.as_str());
        assert_eq!(name("net.core.somaxconn"), Some("net.core.somaxconn"));
        assert_eq!(name("net.ipv4.conf.eth0.rp_filter"), Some("net.ipv4.conf.*.rp_filter"));
        assert_eq!(name("net.ipv4.conf.rp_filter"), None);
    }

    #[test]
    fn the_nearest_names_are_offered() {
        assert!(nearest("net.core.somaxcon").starts_with("did you mean net.core.somaxconn,"));
        assert!(nearest("tcp_wmen").contains("net.ipv4.tcp_wmem"));
        assert!(nearest("TCP_WMEM").starts_with("did you mean net.ipv4.tcp_wmem,"));
        assert!(nearest("nettunebacklogfull").starts_with("did you mean NettuneBacklogFull,"));
        // Of this a comparison of all would take minutes.
        assert!(!nearest(&"x".repeat(1 << 20)).is_empty());
    }

    #[test]
    fn a_quoted_value_is_compared_with_the_running_one() {
        let parameter = CATALOGUE.get("net.core.somaxconn").unwrap();
        let state = |number| State {
            name: parameter.name.clone(),
            fields: Vec::new(),
            value: Value::Numbers(vec![number]),
            default: None,
            locked: false,
            changeable: true,
            device: None,
            last_change: None,
        };
        assert!(quoted(parameter, Some(&state(4096))).contains("the often quoted 1024 would lower yours"));
        assert!(quoted(parameter, Some(&state(128))).contains("the often quoted 1024 would raise yours"));
        assert!(quoted(parameter, None).contains("often quoted is 1024"));
    }

    #[test]
    fn lines_fit_a_terminal() {
        for parameter in &CATALOGUE.parameters {
            for line in describe(parameter, None).lines().filter(|line| !line.contains("  ")) {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }
}
