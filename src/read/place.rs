//! Where values below `/proc/sys` belong to: a boot, and a network namespace of it.

use crate::kernel::{Kernel, Malformed, Root};

/// One boot, and one network namespace in it. `None` is what this host does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// `kernel/random/boot_id`, drawn anew at each boot
    /// (drivers/char/random.c:proc_do_uuid).
    pub boot: Option<String>,
    /// The link `ns/net` of this process: `net:[4026531840]`. Its number means something
    /// within one boot only, and may be given again once the namespace is gone.
    pub namespace: Option<String>,
}

/// Length of a UUID with its dashes, characters.
const UUID: usize = 36;

/// Parses a boot id.
///
/// # Errors
/// Anything but a UUID.
pub fn parse_boot(bytes: &[u8]) -> Result<String, Malformed> {
    let line = bytes.trim_ascii();
    match std::str::from_utf8(line) {
        Ok(text)
            if text.len() == UUID && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') =>
        {
            Ok(text.to_owned())
        }
        _ => Err(Malformed::new(1, "boot_id", "a UUID", line)),
    }
}

/// Reads what there is; what cannot be read is not told.
pub fn read(kernel: &mut Kernel) -> Place {
    let boot = kernel.parse_value("kernel/random/boot_id", |bytes, _| parse_boot(bytes));
    Place { boot: boot.ok(), namespace: kernel.roots().link_name(Root::Proc, "self/ns/net").ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_a_uuid() {
        let id = "3d6c0bfe-5a5b-4d6f-8d0e-6c1d0f1f2a3b";
        assert_eq!(parse_boot(format!("{id}\n").as_bytes()).unwrap(), id);
        for bad in [&b""[..], b"3d6c0bfe", b"\xff", &[b'x'; UUID]] {
            assert_eq!(parse_boot(bad).unwrap_err().expected, "a UUID");
        }
    }
}
