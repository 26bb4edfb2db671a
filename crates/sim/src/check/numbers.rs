//! The numbers that a scheme gives to what it programs.
//!
//! A mount tells new from old by them: of two copies of a page the newer version counts, and programs are ordered by
//! their numbers ([`flash::Oob`]). A scheme that gives a number twice, or copies one along, mostly goes on well: it
//! takes a cut between two commands, and a page of some other, before a mount keeps the wrong one. So the numbers
//! themselves are held to what is said of them.

use flash::{Cause, Kind, Line, Noted};

/// The last numbers that were given.
#[derive(Default)]
pub(super) struct Numbers {
    program: u64,
    version: u64,
}

impl Numbers {
    /// Follows commands, of which no mount is one. Each program has a number above those before it, and so has each
    /// page that is written for the host a version. Copies keep theirs, which are not looked at.
    pub(super) fn follow(&mut self, lines: &[Line]) -> Result<(), String> {
        for line in lines {
            let Noted::Program(oob) = line.what else { continue };
            // Marks have no numbers.
            if matches!(oob.kind, Kind::Bad | Kind::Torn) {
                continue;
            }
            if oob.program <= self.program {
                return Err(format!("`{line}` is program {}, and {} was before it", oob.program, self.program));
            }
            self.program = oob.program;
            if line.cause == Cause::Host && oob.kind.is_host() {
                if oob.version <= self.version {
                    return Err(format!("`{line}` is version {}, and {} was before it", oob.version, self.version));
                }
                self.version = oob.version;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::{Block, Lpn, Oob};

    fn line(program: u64, version: u64, cause: Cause) -> Line {
        Line { block: Block(1), offset: 0, what: Noted::Program(Oob::data(Lpn(3), version, program)), cause }
    }

    #[test]
    fn programs_rise_and_so_do_versions_of_what_the_host_writes() {
        let mut numbers = Numbers::default();
        let (first, copy) = (line(1, 1, Cause::Host), line(2, 1, Cause::DataGc));
        assert_eq!(numbers.follow(&[first, copy, line(3, 2, Cause::Host)]), Ok(()));
        let twice = numbers.follow(&[line(4, 2, Cause::Host)]).unwrap_err();
        assert_eq!(twice, "`W 1.0 data 3 host` is version 2, and 2 was before it");
        let kept = numbers.follow(&[line(4, 1, Cause::DataGc)]).unwrap_err();
        assert_eq!(kept, "`W 1.0 data 3 data_gc` is program 4, and 4 was before it");
    }
}
