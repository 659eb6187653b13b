//! What a pass over connections needs to know to count local ports.

use crate::kernel::{Kernel, Result};
use crate::model::ports::{Ports, time_wait_matters};
use crate::read::{ports, sockstat};

/// Starts the count of a pass; true where it is to see those in TIME_WAIT.
///
/// # Errors
/// The first parameter that exists and cannot be read or understood; the count goes
/// on without it.
pub(super) fn begin(kernel: &mut Kernel, count: &mut Ports) -> (bool, Result<()>) {
    let (parameters, result) = ports::read(kernel);
    let available = count.begin(&parameters);
    let figures = [
        sockstat::read(kernel).map(|found| [found.get("TCP", "tw"), found.get("TCP", "inuse")]),
        sockstat::read6(kernel).map(|found| [None, found.get("TCP6", "inuse")]),
    ];
    let [time_wait, in_use] = figures.into_iter().flatten().fold([0, 0], |[tw, in_use], [more_tw, more]| {
        [tw + more_tw.unwrap_or(0), in_use + more.unwrap_or(0)]
    });
    let wanted = available > 0 && time_wait_matters(time_wait, in_use, available);
    if wanted {
        count.expect_time_wait(&parameters);
    }
    (wanted, result)
}
