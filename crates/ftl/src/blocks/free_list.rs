//! The free blocks of a die, in the order in which they are to be filled.
//!
//! First in, first out is a queue. The least worn first is an ordered set whose key is a block's erase count and then
//! its place in the order of freeing, so that equals leave as they came. A free block's count does not change. (A
//! firmware would chain the free blocks of each count, which takes no more than the queue does.)

use alloc::collections::{BTreeMap, VecDeque};

/// How the next free block is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeOrder {
    /// The one that has been free for longest.
    Fifo,
    /// The least worn; among equals the one that has been free for longest (the ROSE thesis, section 3.3).
    LeastWorn,
}

/// See the module's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FreeList {
    /// In the order of freeing.
    Fifo(VecDeque<u32>),
    /// By erase count and order of freeing; the number that the next block to come is given in it.
    LeastWorn(BTreeMap<(u32, u64), u32>, u64),
}

impl FreeList {
    /// Without blocks.
    pub(crate) fn new(order: FreeOrder) -> FreeList {
        match order {
            FreeOrder::Fifo => FreeList::Fifo(VecDeque::new()),
            FreeOrder::LeastWorn => FreeList::LeastWorn(BTreeMap::new(), 0),
        }
    }

    /// No block is free any more.
    pub(crate) fn clear(&mut self) {
        match self {
            FreeList::Fifo(list) => list.clear(),
            FreeList::LeastWorn(list, next) => {
                list.clear();
                *next = 0;
            }
        }
    }

    /// How many blocks are free.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            FreeList::Fifo(list) => list.len(),
            FreeList::LeastWorn(list, _) => list.len(),
        }
    }

    /// A block with so many erases becomes free.
    #[inline]
    pub(crate) fn push(&mut self, block: u32, erases: u32) {
        match self {
            FreeList::Fifo(list) => list.push_back(block),
            FreeList::LeastWorn(list, next) => {
                list.insert((erases, *next), block);
                *next += 1;
            }
        }
    }

    /// Takes the block that is to be filled next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        match self {
            FreeList::Fifo(list) => list.pop_front(),
            FreeList::LeastWorn(list, _) => list.pop_first().map(|(_, block)| block),
        }
    }

    /// Takes a certain block, with so many erases; whether it was free. Looks at the last ones that became free first.
    pub(crate) fn take(&mut self, block: u32, erases: u32) -> bool {
        match self {
            FreeList::Fifo(list) => {
                let place = list.iter().rposition(|&free| free == block);
                place.is_some_and(|place| list.remove(place).is_some())
            }
            FreeList::LeastWorn(list, _) => {
                let equals = list.range((erases, 0)..=(erases, u64::MAX));
                let key = equals.rev().find(|&(_, &free)| free == block).map(|(&key, _)| key);
                key.is_some_and(|key| list.remove(&key).is_some())
            }
        }
    }

    /// The blocks in the order in which they are to be filled: pushed in this order into a new list they are the same.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (fifo, sorted) = match self {
            FreeList::Fifo(list) => (Some(list), None),
            FreeList::LeastWorn(list, _) => (None, Some(list)),
        };
        fifo.into_iter().flatten().copied().chain(sorted.into_iter().flat_map(|list| list.values().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use flash::Rng;

    /// The rule, by a search over blocks in the order of freeing.
    fn pop_by_scan(free: &mut Vec<u32>, erases: &[u32]) -> Option<u32> {
        let least = (0..free.len()).min_by_key(|&i| erases[free[i] as usize])?;
        Some(free.remove(least))
    }

    #[test]
    fn the_least_worn_is_the_one_that_a_search_finds() {
        let mut rng = Rng::new(5);
        let mut erases = [0u32; 40];
        let mut list = FreeList::new(FreeOrder::LeastWorn);
        let mut scanned: Vec<u32> = (0..40).collect();
        (0..40).for_each(|block| list.push(block, 0));
        let mut used: Vec<u32> = Vec::new();
        for step in 0..4000 {
            if rng.chance(0.5) || used.is_empty() {
                let block = list.pop();
                assert_eq!(block, pop_by_scan(&mut scanned, &erases), "step {step}");
                used.extend(block);
            } else if rng.chance(0.1) && !scanned.is_empty() {
                let block = scanned.remove(rng.below(scanned.len() as u64) as usize);
                assert!(list.take(block, erases[block as usize]));
                assert!(!list.take(block, erases[block as usize]));
                used.push(block);
            } else {
                let block = used.swap_remove(rng.below(used.len() as u64) as usize);
                erases[block as usize] += rng.below(3) as u32;
                list.push(block, erases[block as usize]);
                scanned.push(block);
            }
            if step % 500 == 0 {
                let mut again = FreeList::new(FreeOrder::LeastWorn);
                list.iter().for_each(|block| again.push(block, erases[block as usize]));
                list = again;
            }
            assert_eq!(list.len(), scanned.len());
        }
    }

    #[test]
    fn the_queue_gives_up_any_block() {
        let mut list = FreeList::new(FreeOrder::Fifo);
        (0..5).for_each(|block| list.push(block, 9));
        assert!(list.take(3, 9) && !list.take(3, 9));
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!((list.pop(), list.len()), (Some(0), 3));
    }
}
