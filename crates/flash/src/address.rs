//! Addresses as newtypes, so that no two can be swapped by accident.

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// As an array index.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

address!(
    /// Logical page number: what the host addresses, in units of the device's page.
    Lpn
);
address!(
    /// Physical page number: block number × pages per block + page in the block.
    Ppn
);
address!(
    /// Physical block number. Blocks of one die are consecutive.
    Block
);
address!(
    /// Die number over the whole device: (channel × chips + chip) × dies + die.
    Die
);
address!(
    /// Translation virtual page number: which slice of the logical-to-physical map a translation page holds.
    Tvpn
);

address!(
    /// Logical block number: logical page number / pages per block.
    Lbn
);

impl Lbn {
    /// No logical block. No device has one of this number.
    pub const NONE: Lbn = Lbn(u32::MAX);
}

impl Ppn {
    /// The absent page: an unmapped entry of a mapping table. No device has a page of this number.
    pub const NONE: Ppn = Ppn(u32::MAX);
}
