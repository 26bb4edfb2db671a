//! The chips that runs are measured on: one that keeps what measuring needs, and one that can wear out or be mounted.

use super::{Config, Until};
use flash::{Brief, Clocked, Failing, FailurePlan, Flash, Full, Nand, NoData, Scheduler, Scheduling, Tally, Timeline};
use ftl::Recipe;

/// The chip of plain runs, in time: it keeps what measuring needs.
pub type BriefMedium = Timeline<Nand<NoData, Brief>>;
/// The chip of runs that wear it out or mount it, in time.
pub type FullMedium = Timeline<Failing<Nand<NoData, Full>>>;

/// A chip that runs are measured on.
pub(super) trait Measurable: Flash<User = ()> + Clone + Send + 'static {
    fn new(config: &Config) -> Self;
    /// Blocks wear out from now on, if they are to: they are new, whatever filling the device took.
    fn begin_life(&mut self, _: &Config) {}
    /// Blocks that failed an erase.
    fn worn_out(&self) -> u32 {
        0
    }
    /// Mounts the scheme from flash alone, if the chip keeps what that needs: the commands that it took.
    fn mount<S: Recipe<Timeline<Self>>>(_: &mut Timeline<Self>, _: &S, _: &Config) -> Option<Tally> {
        None
    }
}

impl Measurable for Nand<NoData, Brief> {
    fn new(config: &Config) -> Self {
        Nand::new(config.device.geometry)
    }
}

impl Measurable for Failing<Nand<NoData, Full>> {
    fn new(config: &Config) -> Self {
        Failing::new(Nand::new(config.device.geometry), FailurePlan::default(), config.seed)
    }
    fn begin_life(&mut self, config: &Config) {
        self.endure(config.device.endurance.filter(|_| config.until == Until::EndOfLife));
    }
    fn worn_out(&self) -> u32 {
        self.grown_bad_count()
    }
    fn mount<S: Recipe<Timeline<Self>>>(timeline: &mut Timeline<Self>, recipe: &S, config: &Config) -> Option<Tally> {
        let before = timeline.tally().clone();
        let mounted = recipe.mount(timeline, config.device.logical_pages, &config.settings);
        mounted.is_ok().then(|| timeline.tally().since(&before))
    }
}

/// A medium that runs are measured on.
pub(super) trait Measured: Flash<User = ()> + Clocked + Clone + Send + 'static {
    /// With a clock that stands still, and blocks that do not wear out, until it is reset.
    fn new(config: &Config) -> Self;
    fn reset(&mut self, config: &Config);
    /// Commands queue from now on.
    fn queue(&mut self, scheduling: Scheduling);
    /// Commands queue no longer; what they queued in.
    fn unqueue(&mut self) -> Option<Scheduler>;
    /// When the last command ends that was placed as it was issued.
    fn idle_at_ns(&self) -> u64;
    /// Blocks that failed an erase.
    fn worn_out(&self) -> u32;
    /// Mounts the scheme from flash alone, if the medium keeps what that needs: the commands that it took.
    fn mount<S: Recipe<Self>>(&mut self, recipe: &S, config: &Config) -> Option<Tally>;
}

impl<C: Measurable> Measured for Timeline<C> {
    fn new(config: &Config) -> Self {
        let mut timeline = Timeline::new(C::new(config), config.device.timing, config.device.server);
        timeline.keep_barriers(config.device.barriers);
        timeline.stop_clock();
        timeline
    }
    fn reset(&mut self, config: &Config) {
        Timeline::reset(self);
        self.inner_mut().begin_life(config);
    }
    fn queue(&mut self, scheduling: Scheduling) {
        Timeline::queue(self, scheduling);
    }
    fn unqueue(&mut self) -> Option<Scheduler> {
        Timeline::unqueue(self)
    }
    fn idle_at_ns(&self) -> u64 {
        Timeline::idle_at_ns(self)
    }
    fn worn_out(&self) -> u32 {
        self.inner().worn_out()
    }
    fn mount<S: Recipe<Self>>(&mut self, recipe: &S, config: &Config) -> Option<Tally> {
        C::mount(self, recipe, config)
    }
}
