//! Which blocks of SCFTL's cache go, in which order, and what is written back with them (the SCFTL paper, Table I).

use super::{Ageing, Fetching, NONE, Replacement, Runs, has};
use crate::Outcome;
use crate::demand::cache::Cache;
use crate::demand::map::{Batch, Map, MapStore};
use alloc::vec::Vec;
use flash::Flash;

impl Runs {
    /// The blocks of a class, as a word of 64.
    #[inline(always)]
    fn class(&self, class: u32, word: usize) -> u64 {
        let (a, m, h) = (self.accessed[word], self.modified[word], self.heavy[word]);
        self.valid[word]
            & match (self.replacement, class) {
                (Replacement::DirtyNru, 1) => !a & !m,
                (Replacement::DirtyNru, 2) => !a & h,
                (Replacement::DirtyNru, 3) => !a & m & !h,
                (Replacement::DirtyNru, 4) => a & !m,
                (Replacement::DirtyNru, 5) => a & h,
                (Replacement::DirtyNru, _) => a & m & !h,
                (_, 1) => !a,
                (_, 4) => a,
                _ => 0,
            }
    }

    /// The first block of a class from the pointer on, `except` and fresh ones aside.
    fn first_of_class(&self, set: impl Fn(usize) -> u64, except: u32) -> Option<u32> {
        let words = self.valid.len();
        let (start, within) = ((self.pointer / 64) as usize, self.pointer % 64);
        for step in 0..=words {
            let word = (start + step) % words;
            let mut bits = set(word);
            if step == 0 {
                bits &= u64::MAX << within;
            } else if step == words {
                bits &= !(u64::MAX << within);
            }
            while bits != 0 {
                let slot = word as u32 * 64 + bits.trailing_zeros();
                if slot < self.capacity && slot != except && !self.fresh.contains(&slot) {
                    return Some(slot);
                }
                bits &= bits - 1;
            }
        }
        None
    }

    /// The next victim, by the orders of Table I; `except` is not to go.
    pub(super) fn victim(&self, fetching: Fetching, except: u32) -> Option<u32> {
        if fetching == Fetching::Clean && self.replacement == Replacement::Lru {
            let clean = |&slot: &u32| slot != except && !has(&self.modified, slot);
            return self.order.oldest_first().find(clean);
        }
        if fetching == Fetching::Clean {
            let clean = |accessed: bool| {
                move |word: usize| {
                    let a = self.accessed[word];
                    self.valid[word] & !self.modified[word] & if accessed { a } else { !a }
                }
            };
            return self.first_of_class(clean(false), except).or_else(|| self.first_of_class(clean(true), except));
        }
        match self.replacement {
            Replacement::Lru => self.order.oldest_first().find(|slot| *slot != except && !self.fresh.contains(slot)),
            Replacement::Nru => {
                [1, 4].into_iter().find_map(|c| self.first_of_class(|word| self.class(c, word), except))
            }
            Replacement::DirtyNru => {
                let classes: &[u32] = if fetching == Fetching::Normal { &[1, 2, 3, 4, 5, 6] } else { &[1, 2, 4, 5] };
                classes.iter().find_map(|&c| self.first_of_class(|word| self.class(c, word), except))
            }
        }
    }

    /// Moves the pointer past a victim, and ages flags where that is when they age. LRU has neither: which block has
    /// which number does not matter to it.
    pub(super) fn pass(&mut self, victim: u32) {
        if self.replacement == Replacement::Lru {
            return;
        }
        match self.ageing {
            Ageing::Access => {}
            Ageing::Eviction if self.unaccessed > 0 => {}
            Ageing::Eviction => {
                self.accessed.fill(0);
                self.unaccessed = self.capacity - self.free;
            }
            Ageing::Pointer => {
                let passed = (victim + self.capacity - self.pointer) % self.capacity;
                let end = self.pointer + passed + 1;
                self.forget_uses(self.pointer, end.min(self.capacity));
                self.forget_uses(0, end.saturating_sub(self.capacity));
            }
        }
        self.pointer = (victim + 1) % self.capacity;
    }

    /// Blocks of these numbers lose the accessed flag.
    fn forget_uses(&mut self, from: u32, to: u32) {
        let mut at = from;
        while at < to {
            let (word, within) = ((at / 64) as usize, at % 64);
            let end = to.min(at - within + 64);
            let passed = u64::MAX << within & u64::MAX >> (63 - (end - 1) % 64);
            self.unaccessed += (self.accessed[word] & passed).count_ones();
            self.accessed[word] &= !passed;
            at = end;
        }
    }

    /// Drops the next victim, written back if it is modified; false if there is none for that purpose.
    pub(super) fn evict<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        fetching: Fetching,
        except: u32,
    ) -> Outcome<F, bool> {
        let Some(victim) = self.victim(fetching, except) else { return Ok(false) };
        let [a, m, h] = [&self.accessed, &self.modified, &self.heavy].map(|set| has(set, victim));
        self.counters.victims[if m { if h { 1 } else { 2 } } else { 0 } + if a { 3 } else { 0 }] += 1;
        if m {
            self.write_back(flash, map, victim)?;
        } else {
            map.counters.clean_evictions += 1;
        }
        self.pass(victim);
        self.drop_block(victim);
        Ok(true)
    }

    /// Writes a modified block back, with what else of its translation page the store takes along.
    fn write_back<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, victim: u32) -> Outcome<F> {
        let tvpn = self.tvpn_of(victim);
        let batch = map.batch(flash, tvpn, u32::from(self.length[victim as usize]))?;
        let mut entries = core::mem::take(&mut self.entries);
        match batch {
            Batch::All => self.clean_page(tvpn, &mut entries),
            Batch::Victim => {
                self.clean(victim, &mut entries);
                self.recount(tvpn);
            }
            Batch::UpTo(most) => {
                self.clean(victim, &mut entries);
                let mut others: Vec<u32> = Vec::new();
                let mut slot = self.dirty_head[tvpn.index()];
                while slot != NONE {
                    others.push(slot);
                    slot = self.dirty_next[slot as usize];
                }
                others.sort_unstable_by_key(|&slot| match self.replacement {
                    Replacement::Lru => (0, self.order.standing(slot).2),
                    _ => (u64::from(has(&self.accessed, slot)), u64::from(slot)),
                });
                for slot in others {
                    if entries.len() + usize::from(self.length[slot as usize]) > most as usize {
                        break;
                    }
                    self.clean(slot, &mut entries);
                }
                self.recount(tvpn);
            }
        }
        let written = self.write_evicted(flash, map, tvpn, &entries);
        entries.clear();
        self.entries = entries;
        written
    }
}
