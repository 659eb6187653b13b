//! What part of a receive buffer the window of a connection is.

use super::host::Facts;
use super::parameters::State;
use crate::catalogue::Version;
use crate::read::sysctl::Value;

const SCALE: &str = "net.ipv4.tcp_adv_win_scale";
/// From here on the kernel begins with a half and measures (include/net/tcp.h:
/// tcp_win_from_space and TCP_DEFAULT_SCALING_RATIO).
const MEASURED: Version = Version { major: 6, minor: 6 };
const HALF: [u64; 2] = [1, 2];

/// The window over the buffer, numerator and denominator: up to 6.5 what
/// `tcp_adv_win_scale` says, later what a connection begins with. `None` where it
/// cannot be told which of the two this kernel does.
pub fn window_of_buffer(facts: &Facts, states: &[State]) -> Option<[u64; 2]> {
    let scale = states.iter().find(|state| state.name == SCALE).and_then(|state| match &state.value {
        Value::Numbers(numbers) => numbers.first().copied(),
        Value::Text(_) => None,
    });
    if facts.version.is_some_and(|version| version >= MEASURED) {
        return Some(HALF);
    }
    let scaled = by_scale(scale?);
    let is_known = facts.version.is_some() && !facts.is_heavily_backported();
    // The default is what later kernels begin with.
    (is_known || scaled == HALF).then_some(scaled)
}

/// The kernel shifts by as much (include/net/tcp.h:tcp_win_from_space, 6.1).
fn by_scale(scale: i64) -> [u64; 2] {
    let denominator = 1 << scale.unsigned_abs().min(31);
    if scale > 0 { [denominator - 1, denominator] } else { [1, denominator] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Constants;
    use crate::read::host::Host;

    fn window(release: &str, scale: Option<i64>) -> Option<[u64; 2]> {
        let host = Host { release: release.into(), ..Host::default() };
        let constants = Constants { page_size: 4096, clock_ticks: 100, hz: 250, machine: "x86_64".into() };
        let state = |scale| State {
            name: SCALE.to_owned(),
            fields: Vec::new(),
            value: Value::Numbers(vec![scale]),
            default: None,
            locked: false,
            changeable: true,
            device: None,
            last_change: None,
        };
        let states: Vec<_> = scale.map(state).into_iter().collect();
        window_of_buffer(&Facts::new(host, 0, constants), &states)
    }

    #[test]
    fn the_parameter_decides_up_to_the_kernel_that_measures() {
        assert_eq!(window("6.5.13", Some(1)), Some([1, 2]));
        assert_eq!(window("6.1.0-28-amd64", Some(2)), Some([3, 4]));
        assert_eq!(window("5.10.0", Some(-2)), Some([1, 4]));
        assert_eq!(window("5.10.0", Some(0)), Some([1, 1]));
        assert_eq!(window("6.6.0", Some(2)), Some([1, 2]));
        assert_eq!(window("6.18.44", None), Some([1, 2]));
        assert_eq!(window("5.10.0", None), None);
    }

    #[test]
    fn what_a_vendor_may_have_brought_back_is_not_guessed() {
        assert_eq!(window("5.14.0-427.el9.x86_64", Some(2)), None);
        // Either way it is a half.
        assert_eq!(window("5.14.0-427.el9.x86_64", Some(1)), Some([1, 2]));
        assert_eq!(window("next", Some(2)), None);
    }
}
