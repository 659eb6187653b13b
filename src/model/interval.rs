//! Figures over the last interval of the ticker, so that the pace of scrapes,
//! and their number, changes nothing.

/// Segments retransmitted for each segment sent, over the last interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetransmitRatio {
    previous: Option<(u64, u64)>,
    ratio: Option<f64>,
}

impl RetransmitRatio {
    /// Takes the counters `Tcp OutSegs` and `Tcp RetransSegs` of this moment;
    /// `None` where they could not be read.
    pub fn tick(&mut self, counters: Option<(u64, u64)>) {
        self.ratio = match (self.previous, counters) {
            (Some((sent_before, again_before)), Some((sent, again))) => {
                // A counter that went back belongs to another namespace or boot.
                let sent = sent.checked_sub(sent_before).filter(|sent| *sent > 0);
                let again = again.checked_sub(again_before);
                sent.zip(again).map(|(sent, again)| again as f64 / sent as f64)
            }
            _ => None,
        };
        self.previous = counters;
    }

    /// The ratio; none before a whole interval, when nothing was sent, or when
    /// a counter went back.
    pub fn get(&self) -> Option<f64> {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_ratio_without_evidence() {
        let mut ratio = RetransmitRatio::default();
        let mut tick = |counters| {
            ratio.tick(counters);
            ratio.get()
        };
        assert_eq!(tick(Some((1000, 10))), None, "no interval yet");
        assert_eq!(tick(Some((1200, 15))), Some(0.025));
        assert_eq!(tick(Some((1200, 15))), None, "nothing sent");
        assert_eq!(tick(Some((1300, 15))), Some(0.0));
        assert_eq!(tick(Some((5, 0))), None, "went back");
        assert_eq!(tick(None), None, "not read");
        assert_eq!(tick(Some((10, 0))), None, "an interval began anew");
    }
}
