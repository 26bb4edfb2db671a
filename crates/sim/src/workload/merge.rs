//! Several workloads as one, each a volume of it.
//!
//! Only the order within each of them means anything: who comes next among several is for the host model to say, which
//! knows when requests end ([`Flows`](crate::host::Flows)). So they are merged request by request in turn, as long as
//! they last.

use super::{Intake, Request, Source, WorkloadError};

/// Requests read ahead of each.
const AHEAD: usize = 1024;

/// The merged workload.
pub struct Merged {
    parts: Vec<Part>,
    /// Whose turn it is.
    turn: usize,
    intake: Intake,
}

struct Part {
    /// What stands for it in errors.
    origin: String,
    source: Box<dyn Source>,
    ahead: Vec<Request>,
    at: usize,
    ended: bool,
}

impl Part {
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        if self.at == self.ahead.len() && !self.ended {
            self.ahead.clear();
            self.at = 0;
            self.source.fill(&mut self.ahead, AHEAD)?;
            self.ended = self.ahead.is_empty();
        }
        let Some(&request) = self.ahead.get(self.at) else { return Ok(None) };
        self.at += 1;
        if request.volume > 0 {
            let what = "it has several volumes, but a flow has one".to_owned();
            let fix = "take one of them out with `ftlab trace convert --volumes select=N`".to_owned();
            return Err(WorkloadError { origin: self.origin.clone(), line: 0, what, fix });
        }
        Ok(Some(request))
    }
}

impl Merged {
    /// Of these sources, each with what stands for it in errors.
    pub fn new(sources: Vec<(String, Box<dyn Source>)>) -> Merged {
        let part = |(origin, source)| Part { origin, source, ahead: Vec::new(), at: 0, ended: false };
        let parts: Vec<Part> = sources.into_iter().map(part).collect();
        let volumes = parts.iter().map(|part| part.origin.clone()).collect();
        Merged { parts, turn: 0, intake: Intake { volumes, ..Intake::default() } }
    }
}

impl Source for Merged {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let end = batch.len() + limit;
        let mut silent = 0;
        while batch.len() < end && silent < self.parts.len() {
            let number = self.turn;
            self.turn = (number + 1) % self.parts.len();
            match self.parts[number].next()? {
                Some(request) => {
                    batch.push(Request { volume: number as u32, ..request });
                    self.intake.requests += 1;
                    silent = 0;
                }
                None => silent += 1,
            }
        }
        if silent == self.parts.len() {
            let of = |get: fn(&Intake) -> u64| self.parts.iter().map(|part| get(part.source.intake())).sum();
            self.intake.skipped = of(|intake| intake.skipped);
            self.intake.ignored = of(|intake| intake.ignored);
            self.intake.out_of_order = of(|intake| intake.out_of_order);
            let worst = self.parts.iter().map(|part| part.source.intake().worst_disorder_ns).max();
            self.intake.worst_disorder_ns = worst.unwrap_or(0);
            self.intake.unended = self.parts.iter().any(|part| part.source.intake().unended);
            let first = |part: &Part| part.source.intake().first_skipped.clone();
            self.intake.first_skipped = self.parts.iter().find_map(first);
        }
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.parts.iter().any(|part| part.source.timed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::generate::{Context, generate};

    fn part(spec: &str, seed: u64) -> (String, Box<dyn Source>) {
        (spec.to_owned(), generate(spec, &Context { capacity_bytes: 64 << 20, seed }).unwrap())
    }

    fn all(source: &mut dyn Source) -> Vec<Request> {
        let mut requests = Vec::new();
        let mut before = usize::MAX;
        while requests.len() != before {
            before = requests.len();
            source.fill(&mut requests, 700).unwrap();
        }
        requests
    }

    #[test]
    fn every_part_is_a_volume_in_its_own_order() {
        let specs = [("uniform:reads=0.5,requests=3000", 1), ("sequential:requests=500", 2), ("zipf:requests=1", 3)];
        let mut merged = Merged::new(specs.iter().map(|&(spec, seed)| part(spec, seed)).collect());
        let requests = all(&mut merged);
        for (number, &(spec, seed)) in specs.iter().enumerate() {
            let own: Vec<Request> = requests
                .iter()
                .filter(|request| request.volume == number as u32)
                .map(|&request| Request { volume: 0, ..request })
                .collect();
            assert_eq!(own, all(&mut *part(spec, seed).1), "{spec}");
        }
        // In turn as long as both last.
        assert_eq!(requests[3..13].iter().map(|request| request.volume).collect::<Vec<_>>(), [0, 1].repeat(5));
        assert_eq!((merged.intake().requests, merged.intake().volumes.len()), (3501, 3));
    }
}
