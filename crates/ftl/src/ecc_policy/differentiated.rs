//! The policy of the differentiated-ECC paper, section IV.B: modes by how hot a page is for reads and for writes.
//!
//! | class | reads | writes | programmed |
//! |---|---|---|---|
//! | write-only | 0 | > 0 | low cost |
//! | overlapped | > 0 | > 0 | low cost if writes − reads > m, else normal |
//! | read-only | > 0 | 0 | normal |
//! | neither | 0 | 0 | normal, as it is, or low cost: `ecc-unknown` |
//!
//! The last two classes meet copies of collections only, for a host write is noted before it is judged. The paper does
//! not name the fourth, and the filters forget a page within some thousand accesses, so that most copies are of it:
//! what it gets decides more than the other three do. A read notes itself, and a page programmed with low cost whose
//! reads are then hotter than n is rewritten in normal mode. Both comparisons are strict, as "exceeds" says.

use super::separator::{Access, Separator};
use super::{EccPolicy, EccRow, Options};
use crate::{Loader, Parameter, Saver};
use alloc::boxed::Box;
use flash::{Lpn, Mode};

/// `ecc-m`: m.
pub(crate) const MARGIN: Parameter = Parameter::real("ecc-m", 1.0, -5.0..=5.0)
    .unit("hotness")
    .text(
        "Margin m. A page that is read and written is programmed at low cost if its writes are hotter than its reads \
         by more than m. Larger values program fewer pages at low cost, which speeds up reads; smaller values \
         speed up writes.",
    )
    .source("{ecc}, section IV.B");

/// `ecc-n`: n.
pub(crate) const REWRITE: Parameter = Parameter::real("ecc-n", 4.0, 0.0..=5.0)
    .unit("hotness")
    .text(
        "Threshold n. A page programmed at low cost is rewritten in normal mode if its reads are hotter than n. \
         Smaller values speed up reads and cost rewrites; 5 never rewrites.",
    )
    .source("{ecc}, section IV.B");

/// `ecc-rewrite-waits`: who waits for a rewrite.
pub(crate) const REWRITE_WAITS: Parameter = Parameter::switch("ecc-rewrite-waits", false)
    .text(
        "The read that asks for a rewrite waits for it. Off rewrites beside the read; the next command on that die \
         waits in any case.",
    )
    .source("ftlab; {ecc} says that a rewrite is issued and not who waits");

/// `ecc-write-only`: the rule for pages that are only written.
pub(crate) const WRITE_ONLY: Parameter = Parameter::switch("ecc-write-only", true)
    .text("Pages that were only written are programmed at low cost. Off lets ecc-m decide about them too.")
    .source("{ecc}, section IV.B; the switch is ours");

/// `ecc-unknown`: the class that the paper does not name.
pub(crate) const UNKNOWN: Parameter = Parameter::word("ecc-unknown", "normal", &["normal", "keep", "low-cost"])
    .text(
        "How a page is programmed that was neither read nor written lately: when a collection copies it, and in the \
         fill. normal: with BCH, which favours later reads and makes collections slow. keep: as it was; the fill is \
         normal. low-cost: with LDPC, which makes collections fast and later reads slow.",
    )
    .source("ftlab; {ecc}, section IV.B, names three classes and not this one");

pub(super) const ROW: EccRow = EccRow {
    name: "differentiated",
    summary: "pages that are written more than read with low cost and LDPC, the others in normal mode with BCH",
    source: "{ecc}",
    make: |_, options| Box::new(Differentiated::new(options)),
};

#[derive(Clone, Debug)]
struct Differentiated {
    separator: Separator,
    margin: f64,
    rewrite: f64,
    write_only: bool,
    unknown: Option<Mode>,
}

impl Differentiated {
    fn new(options: &Options) -> Differentiated {
        let &Options { margin, rewrite, write_only, unknown, separator, .. } = options;
        Differentiated { separator: Separator::new(separator), margin, rewrite, write_only, unknown }
    }
}

impl EccPolicy for Differentiated {
    fn request(&mut self, first: Lpn, pages: u32) {
        self.separator.announce(first, pages);
    }

    fn written(&mut self, lpn: Lpn) -> Mode {
        self.separator.note(Access::Write, lpn);
        self.copied(lpn, Mode::Normal)
    }

    fn was_read(&mut self, lpn: Lpn) -> bool {
        self.separator.note(Access::Read, lpn);
        self.separator.hotness(Access::Read, lpn) > self.rewrite
    }

    fn copied(&self, lpn: Lpn, now: Mode) -> Mode {
        let [read, write] = [Access::Read, Access::Write].map(|access| self.separator.hotness(access, lpn));
        if read == 0.0 && write == 0.0 {
            return self.unknown.unwrap_or(now);
        }
        let write_only = self.write_only && read == 0.0;
        if write > 0.0 && (write_only || write - read > self.margin) { Mode::LowCost } else { Mode::Normal }
    }

    fn unknown(&self) -> Mode {
        self.unknown.unwrap_or(Mode::Normal)
    }

    fn rewrites(&self) -> bool {
        true
    }

    fn memory(&self) -> u64 {
        self.separator.memory()
    }

    fn save(&self, out: &mut Saver) {
        self.separator.save(out);
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.separator.load(from);
    }

    fn boxed(&self) -> Box<dyn EccPolicy + Send> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::GROUP;
    use super::*;
    use crate::Settings;

    fn policy(pairs: &[(&str, &str)]) -> Differentiated {
        let mut settings = Settings::defaults(GROUP.rows);
        pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        Differentiated::new(&Options::from(&settings))
    }

    const X: Lpn = Lpn(77);

    /// The specification's example: what each write is programmed as, and the read that asks for a rewrite.
    #[test]
    fn worked_example_of_the_specification() {
        let mut policy = policy(&[]);
        assert_eq!([policy.written(X), policy.written(X)], [Mode::LowCost; 2]);
        assert!(!policy.was_read(X));
        assert_eq!(policy.written(X), Mode::LowCost, "3.5 − 1.5 > 1");
        assert_eq!([(); 3].map(|()| policy.was_read(X)), [false, false, true]);
        assert!(policy.was_read(X), "it stays hot; there is nothing left to rewrite");
        assert_eq!(policy.written(X), Mode::Normal, "5 − 5");
    }

    #[test]
    fn the_four_classes_and_the_margin() {
        let mut policy = policy(&[("ecc-m", "1")]);
        assert_eq!(policy.copied(X, Mode::LowCost), Mode::Normal, "neither");
        policy.was_read(X);
        assert_eq!(policy.copied(X, Mode::LowCost), Mode::Normal, "read-only");
        // Reads 0.5; writes 1.0, 2.5, 4.5: the second is hotter by 2, the first by 0.5.
        assert_eq!([policy.written(X), policy.written(X)], [Mode::Normal, Mode::LowCost]);
        assert_eq!(policy.written(Lpn(5)), Mode::LowCost, "write-only");
        assert_eq!(policy.copied(Lpn(5), Mode::Normal), Mode::LowCost);
    }

    /// Of a page that nothing is known of, and of one that was read and one that was written: what their copies are.
    #[test]
    fn the_class_without_a_name_is_as_the_user_says() {
        use Mode::{LowCost, Normal};
        for (word, fill, copies) in
            [("normal", Normal, [Normal; 2]), ("keep", Normal, [Normal, LowCost]), ("low-cost", LowCost, [LowCost; 2])]
        {
            let mut policy = policy(&[("ecc-unknown", word)]);
            assert_eq!(policy.unknown(), fill, "{word}");
            assert_eq!([Normal, LowCost].map(|now| policy.copied(X, now)), copies, "{word}");
            policy.was_read(X);
            policy.written(Lpn(5));
            assert_eq!([Normal, LowCost].map(|now| policy.copied(X, now)), [Normal; 2], "{word}: read-only");
            assert_eq!([Normal, LowCost].map(|now| policy.copied(Lpn(5), now)), [LowCost; 2], "{word}: write-only");
        }
    }

    /// A request of four pages is four accesses and one request: with a period of two the third page clears the first
    /// pair, or the third request does.
    #[test]
    fn filters_forget_by_requests_or_by_pages() {
        for (by, held) in [("pages", [0.0, 0.5, 1.0, 1.5]), ("requests", [0.5, 1.0, 1.5, 2.0])] {
            let mut policy = policy(&[("ecc-decay", "2"), ("ecc-decay-by", by), ("ecc-pairs", "4")]);
            policy.request(Lpn(0), 4);
            (0..4).for_each(|lpn| _ = policy.written(Lpn(lpn)));
            let hot = |policy: &Differentiated, lpn| policy.separator.hotness(Access::Write, Lpn(lpn));
            assert_eq!([0, 1, 2, 3].map(|lpn| hot(&policy, lpn)), held, "{by}");
            if by == "requests" {
                policy.request(Lpn(1), 1);
                policy.was_read(Lpn(1));
                assert_eq!(hot(&policy, 0), 0.5, "the second request");
                // Not announced: a request of its own, the third.
                policy.was_read(Lpn(3));
                assert_eq!([0, 1, 2, 3].map(|lpn| hot(&policy, lpn)), [0.0, 0.5, 1.0, 1.5], "the third");
            }
        }
    }

    #[test]
    fn thresholds_at_their_ends_switch_it_off() {
        let mut never = policy(&[("ecc-n", "5")]);
        assert!((0..40).all(|_| !never.was_read(X)));
        let mut baseline = policy(&[("ecc-m", "5"), ("ecc-write-only", "off")]);
        for i in 0..40 {
            assert_eq!(baseline.written(X), Mode::Normal);
            assert_eq!(baseline.written(Lpn(i)), Mode::Normal);
        }
        assert_eq!(baseline.separator.hotness(Access::Write, X), 5.0, "5 − 0 is not more than 5");
    }
}
