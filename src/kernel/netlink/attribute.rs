//! Attributes of netlink messages, and integers in them.

const NLA_HEADER: usize = 4;
/// Without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// One netlink attribute, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Attribute<'a> {
    /// `nla_type` without its flags
    pub kind: u16,
    /// The value, without padding.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The attributes nested in this one.
    pub fn nested(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        attributes(self.value)
    }

    /// A NUL-terminated string. Bytes that are no UTF-8 become `\\xNN`, so that
    /// different names stay different: the kernel lets a device be called by
    /// almost any bytes.
    pub fn string(&self) -> String {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        let chunks = self.value[..end].utf8_chunks();
        chunks
            .flat_map(|chunk| [chunk.valid().to_owned(), chunk.invalid().escape_ascii().to_string()])
            .collect()
    }
}

/// A walk of our own, `struct nlattr { u16 nla_len, nla_type; }` and padding: with a
/// library's, one that yields a result each, a pass over half a million sockets took a
/// tenth longer (benches/sockets).
pub(super) fn attributes<'a>(bytes: &'a [u8]) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let [a, b, c, d] = *rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let kind = u16::from_ne_bytes([c, d]) & NLA_TYPE_MASK;
        let value = rest.get(NLA_HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value })
    })
}

/// Native-endian integer at `offset`, if the bytes reach that far.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

/// Native-endian integer at `offset`, if the bytes reach that far.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

/// Native-endian integer at `offset`, if the bytes reach that far.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

/// Big-endian integer at `offset`, as netfilter sends them.
pub fn be32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_be_bytes)
}

pub(super) fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    array_at(bytes, offset).map(i32::from_ne_bytes)
}

/// Bytes from `offset`, if they reach that far.
pub(in crate::kernel) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_text_stay_different() {
        let name = |value: &[u8]| Attribute { kind: 3, value }.string();
        assert_eq!(name(b"eth0\0\0"), "eth0");
        assert_eq!(name("ä".as_bytes()), "ä");
        assert_eq!((name(b"a\xff").as_str(), name(b"a\xfe").as_str()), ("a\\xff", "a\\xfe"));
    }
}
