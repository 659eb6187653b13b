//! Masks of CPUs, as the kernel takes and prints them.

/// Bits of one chunk, the last of which is the lowest.
const CHUNK: u32 = 32;

/// What stands in `net.core.rps_default_mask` once `text` was written to it, as it is
/// printed on a host that can have `cpus`, and whether the write was taken. A refused one
/// leaves what was read of it before the fault (lib/bitmap-str.c:bitmap_parse,
/// net/core/sysctl_net_core.c:rps_default_mask_sysctl); `None` where that is nothing.
pub(super) fn write(text: &str, cpus: u32) -> (Option<String>, bool) {
    let most = cpus.div_ceil(CHUNK) as usize;
    let mut chunks = Vec::new();
    let mut good = true;
    let parts = text.rsplit(|character: char| character.is_ascii_whitespace() || character == ',');
    for part in parts.filter(|part| !part.is_empty()) {
        let digits = part.len() <= CHUNK as usize / 4 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u32::from_str_radix(part, 16) {
            Ok(chunk) if digits && chunks.len() < most => chunks.push(chunk),
            _ => {
                good = false;
                break;
            }
        }
    }
    if chunks.is_empty() && !good {
        return (None, false);
    }
    chunks.resize(most, 0);
    // CPUs that there cannot be.
    let top = cpus - CHUNK * (most.saturating_sub(1) as u32);
    if let Some(chunk) = chunks.last_mut()
        && top < CHUNK
        && *chunk >> top != 0
    {
        *chunk &= (1 << top) - 1;
        good = false;
    }
    (Some(print(&chunks, top)), good)
}

/// The highest chunk first, with as many digits as it has CPUs for
/// (lib/vsprintf.c:bitmap_string).
fn print(chunks: &[u32], top: u32) -> String {
    let mut widths = std::iter::once(top.div_ceil(4) as usize).chain(std::iter::repeat(8));
    let printed: Vec<_> = chunks
        .iter()
        .rev()
        .map(|chunk| format!("{chunk:0width$x}", width = widths.next().unwrap_or(8)))
        .collect();
    printed.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 with two CPUs answered each of these writes over 0.
    #[test]
    fn two_cpus() {
        for (text, left) in
            [("00000001", "1"), ("", "0"), (",1", "1"), ("1,", "1"), ("1 ", "1"), ("2", "2"), ("03", "3")]
        {
            assert_eq!(write(text, 2), (Some(left.into()), true), "{text}");
        }
        for (text, left) in
            [("5", "1"), ("4", "0"), ("F", "3"), ("1,1", "1"), ("1 1", "1"), ("0,1", "1"), ("ffffffff", "3")]
        {
            assert_eq!(write(text, 2), (Some(left.into()), false), "{text}");
        }
        for text in ["100000001", "000000000001", "0x1", "x", "-1", "+1"] {
            assert_eq!(write(text, 2), (None, false), "{text}");
        }
    }

    /// By hand from the kernel's `%*pb`.
    #[test]
    fn widths_follow_the_number_of_cpus() {
        for (cpus, text, left) in [
            (4, "f", "f"),
            (5, "f", "0f"),
            (32, "f", "0000000f"),
            (33, "f", "0,0000000f"),
            (64, "1,0", "00000001,00000000"),
            (72, "ff,ffffffff,FFFFFFFF", "ff,ffffffff,ffffffff"),
        ] {
            assert_eq!(write(text, cpus), (Some(left.into()), true), "{cpus}");
        }
    }
}
