//! Schemes on a chip that has the seven calls that a chip must have, and nothing else.

use super::{SCHEMES, Visitor, visit};
use crate::{BuildError, Built, Ftl, Inspect, Recipe, Scheme};
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Full, Geometry, Lpn, Nand, Oob, Payload, Ppn, Rng, Tags};

/// The seven calls of a chip.
struct Plain(Nand<Tags, Full>);

impl Flash for Plain {
    type User = u64;
    type Fault = core::convert::Infallible;
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, u64>), Self::Fault> {
        self.0.read(ppn, cause)
    }
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, Self::Fault> {
        self.0.read_oob(ppn, cause)
    }
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, u64>, cause: Cause) -> Result<(), Self::Fault> {
        self.0.program(ppn, oob, data, cause)
    }
    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), Self::Fault> {
        self.0.append(ppn, at, bytes, mark, cause)
    }
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Self::Fault> {
        self.0.copy(from, to, cause, edit)
    }
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Self::Fault> {
        self.0.erase(block, cause)
    }
}

fn chip() -> Nand<Tags, Full> {
    let g = Geometry { blocks_per_die: 48, pages_per_block: 8, page_bytes: 512, nop: 8, ..Geometry::default() };
    Nand::new(g.checked().unwrap())
}

/// Writes a device, mounts it, and says what its pages hold and how often its blocks were erased.
struct Run<F>(F);
impl<F: Flash<User = u64>> Visitor<F> for Run<F> {
    type Output = Built<F, (Vec<Option<u64>>, Vec<u32>)>;
    fn visit<S: Recipe<F>>(self, row: &Scheme<'_>, recipe: &S) -> Self::Output {
        let (Run(mut flash), pages) = (self, 160);
        let settings = row.settings();
        let mut scheme = recipe.format(&mut flash, pages, &settings)?;
        let mut rng = Rng::new(1);
        for tag in 0..3000 {
            scheme.write(&mut flash, Lpn(rng.below(pages.into()) as u32), &tag)?;
        }
        scheme.flush(&mut flash)?;
        let erases = scheme.erase_counts().to_vec();
        let (mut scheme, _) = recipe.mount(&mut flash, pages, &settings)?;
        scheme.audit(&mut flash).unwrap();
        let read = |lpn| Ok(scheme.read(&mut flash, Lpn(lpn))?.copied());
        Ok(((0..pages).map(read).collect::<Result<_, BuildError<_>>>()?, erases))
    }
}

#[test]
fn seven_calls_are_enough_unless_maps_are_in_spare_areas() {
    let mut refused = Vec::new();
    for row in SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
        match visit(row.name, Run(Plain(chip()))).unwrap() {
            Ok(found) => assert!(Ok(found) == visit(row.name, Run(chip())).unwrap(), "{}", row.name),
            Err(error) => {
                let error = error.config().unwrap_or_else(|| panic!("{} does not come up", row.name));
                assert_eq!(error.key, "oob", "{}: {error}", row.name);
                refused.push(row.name);
            }
        }
    }
    assert_eq!(refused, ["superblock", "hybridlog", "rose-log"]);
}
