/// A set of ports, in which one is found at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSet(Box<[u64; 1024]>);

impl Default for PortSet {
    fn default() -> Self {
        Self(Box::new([0; 1024]))
    }
}

impl PortSet {
    /// False when it was there.
    pub(super) fn insert(&mut self, port: u16) -> bool {
        let new = !self.contains(port);
        self.0[usize::from(port / 64)] |= 1 << (port % 64);
        new
    }

    pub(super) fn remove(&mut self, port: u16) {
        self.0[usize::from(port / 64)] &= !(1 << (port % 64));
    }

    /// Whether it is there.
    pub fn contains(&self, port: u16) -> bool {
        self.0[usize::from(port / 64)] >> (port % 64) & 1 == 1
    }

    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }
}

impl<'a> FromIterator<&'a u16> for PortSet {
    fn from_iter<I: IntoIterator<Item = &'a u16>>(ports: I) -> Self {
        let mut set = Self::default();
        for port in ports {
            set.insert(*port);
        }
        set
    }
}
