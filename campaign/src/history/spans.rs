//! Sets of time spans.

/// Begin (inclusive) and end (exclusive), in µs.
pub(super) type Span = (u64, u64);

/// Merged spans, in order; they neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Vec<Span>);

impl Spans {
    pub(super) fn of(mut spans: Vec<Span>) -> Self {
        spans.retain(|(from, to)| from < to);
        spans.sort_unstable();
        let mut merged: Vec<Span> = Vec::new();
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// Returns these spans and some more.
    pub(super) fn and(&self, more: &[Span]) -> Self {
        Self::of([self.0.as_slice(), more].concat())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Span> {
        self.0.iter().copied()
    }

    /// Returns the spans that overlap `(from, to)`.
    pub(super) fn within(&self, (from, to): Span) -> impl Iterator<Item = Span> {
        let first = self.0.partition_point(|span| span.1 <= from);
        self.0.iter().copied().skip(first).take_while(move |span| span.0 < to)
    }

    /// Returns the parts of a span that none of these spans covers.
    pub(super) fn gaps(&self, (from, to): Span) -> Vec<Span> {
        let (mut gaps, mut open) = (Vec::new(), from);
        for (begin, end) in self.within((from, to)) {
            if open < begin {
                gaps.push((open, begin));
            }
            open = end;
        }
        if open < to {
            gaps.push((open, to));
        }
        gaps
    }
}

/// Counts how many of its spans overlap another span.
#[derive(Debug)]
pub(super) struct Crowd {
    begins: Vec<u64>,
    ends: Vec<u64>,
}

impl Crowd {
    pub(super) fn of(spans: &[Span]) -> Self {
        let mut begins: Vec<u64> = spans.iter().map(|span| span.0).collect();
        let mut ends: Vec<u64> = spans.iter().map(|span| span.1).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        Self { begins, ends }
    }

    pub(super) fn in_part_of(&self, (from, to): Span) -> usize {
        let begun = self.begins.partition_point(|begin| *begin < to);
        let over = self.ends.partition_point(|end| *end <= from);
        begun.saturating_sub(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_merge_and_leave_gaps() {
        let spans = Spans::of(vec![(5, 7), (1, 3), (3, 4), (9, 9), (20, 30)]);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(1, 4), (5, 7), (20, 30)]);
        assert_eq!(spans.gaps((0, 25)), [(0, 1), (4, 5), (7, 20)]);
        assert_eq!(spans.gaps((2, 4)), []);
        assert_eq!(spans.within((4, 21)).count(), 2);
        assert_eq!(Crowd::of(&[(0, 5), (3, 8), (8, 9)]).in_part_of((5, 8)), 1);
    }
}
