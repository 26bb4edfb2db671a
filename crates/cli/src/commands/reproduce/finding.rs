//! Published beside measured: a line for each row, configuration and workload, its deviation, and whether the order
//! that was published holds.

use super::file::{Experiment, MEAN, Published, Relation, Row, UNITS};
use super::lab::{Kind, Outcome, Served};
use super::measure::{self, Measured};
use crate::units;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The outcomes of an experiment's configurations under one source.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// The workload's name.
    pub(super) workload: String,
    /// Which of the workload's sources it is, from 0.
    pub(super) index: usize,
    /// What the source is.
    pub(super) kind: Kind,
    /// The source's name.
    pub(super) source: String,
    /// What the source came to.
    pub(super) served: Served,
    /// Outcomes by the configuration's name.
    pub(super) outcomes: BTreeMap<String, Outcome>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Found {
    /// A number in the row's unit.
    Number(Measured),
    /// A configuration.
    Name(String),
}

/// Published beside measured.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Finding {
    /// The row, by its place.
    pub(super) row: usize,
    /// The configuration; nothing if the row chooses one.
    pub(super) of: Option<String>,
    /// The workload's name, or [`MEAN`].
    pub(super) workload: String,
    /// What it ran on, in a word; several words for a mean over different kinds.
    pub(super) from: String,
    /// The source's name; those of all for a mean.
    pub(super) source: String,
    /// How many requests were served; nothing for a mean.
    pub(super) requests: Option<u64>,
    /// What was published.
    pub(super) published: Option<Published>,
    /// What was measured, or why nothing was.
    pub(super) measured: Result<Found, String>,
    /// Measured less published, in points where the unit is a percentage, else in percent; 0 within a range.
    pub(super) deviation: Option<f64>,
    /// Whether the sign of what was published holds.
    pub(super) sign: Option<bool>,
    /// Whether its place among the other published figures of its kind holds.
    pub(super) order: Option<bool>,
    /// The measure that was 0, where the run did not come to what the row is about.
    pub(super) idle: Option<String>,
    /// Whether response times here only tell how long the workload is (docs/metrics.md, overloaded).
    pub(super) overloaded: bool,
}

impl Finding {
    /// Whether two findings are of the same figure, measured under different conditions.
    pub(super) fn stands_beside(&self, other: &Finding) -> bool {
        let on = |one: &Finding| if one.workload == MEAN { String::new() } else { one.from.clone() };
        (self.row, &self.of, &self.workload, on(self)) == (other.row, &other.of, &other.workload, on(other))
    }

    /// Whether the run came to what the row is about.
    pub(super) fn exercised(&self) -> bool {
        self.idle.is_none()
    }

    /// Whether all of sign and order that can be judged hold; nothing where the run did not come to the matter.
    pub(super) fn holds(&self) -> Option<bool> {
        let mut judged = self.sign.into_iter().chain(self.order).filter(|_| self.exercised()).peekable();
        judged.peek()?;
        Some(judged.all(|holds| holds))
    }
}

/// All findings of an experiment.
pub(super) fn findings(experiment: &Experiment, grounds: &[Ground]) -> Vec<Finding> {
    let mut all = Vec::new();
    for (index, row) in experiment.rows.iter().enumerate() {
        let ones: Vec<Option<&String>> =
            if row.relation.is_choice() { vec![None] } else { row.of.iter().map(Some).collect() };
        for of in ones {
            let mut own: Vec<Finding> = Vec::new();
            for workload in &row.workloads {
                own.extend(
                    grounds
                        .iter()
                        .filter(|ground| ground.workload == *workload)
                        .map(|ground| finding(index, row, of, ground)),
                );
            }
            if row.mean {
                let first = |finding: &&Finding| {
                    grounds.iter().any(|ground| {
                        ground.index == 0 && ground.workload == finding.workload && ground.source == finding.source
                    })
                };
                own.push(mean(index, row, of, &own.iter().filter(first).collect::<Vec<_>>()));
            }
            all.extend(own);
        }
    }
    let judged: Vec<_> = all.iter().map(|one| judged(experiment, one, &all)).collect();
    for (finding, (sign, order, nothing)) in all.iter_mut().zip(judged) {
        (finding.sign, finding.order) = (sign, order);
        if nothing && finding.exercised() {
            finding.idle = Some(experiment.rows[finding.row].measure.clone());
        }
    }
    all
}

fn finding(index: usize, row: &Row, of: Option<&String>, ground: &Ground) -> Finding {
    let published = row.published.get(&ground.workload).cloned();
    let measured = match of {
        None => chosen(row, ground).map(Found::Name),
        Some(name) => related(row, name, ground).map(Found::Number),
    };
    let about_time = row.measure.starts_with("response_us") || row.measure.starts_with("queue_us");
    let of_this = row.of.iter().filter(|name| of.is_none_or(|of| of == *name)).chain(&row.against);
    let overloaded = about_time
        && of_this.filter_map(|name| ground.outcomes.get(name)?.result()).any(sim::report::SchemeResult::is_overloaded);
    // A counter that a run does not have is one that never counted.
    let happened = |measure: &str| of.and_then(|name| taken(name, measure, ground).ok()).is_some_and(|m| m.value > 0.0);
    // Of two that are 0 there is no difference to judge; a change and a ratio are not measured then.
    let is_zero = |name: &String| taken(name, &row.measure, ground).is_ok_and(|m| m.value == 0.0);
    let nothing = row.relation == Relation::Difference && of.into_iter().chain(&row.against).all(is_zero);
    let idle = row.exercised_by.as_ref().filter(|measure| !happened(measure)).or(nothing.then_some(&row.measure));
    Finding {
        row: index,
        of: of.cloned(),
        idle: idle.cloned(),
        workload: ground.workload.clone(),
        from: ground.kind.word_for(&ground.source),
        source: ground.source.clone(),
        requests: Some(ground.served.requests),
        deviation: deviation(row, published.as_ref(), measured.as_ref().ok()),
        published,
        measured,
        sign: None,
        order: None,
        overloaded,
    }
}

/// The mean over the workloads that were measured; of each its first source.
fn mean(index: usize, row: &Row, of: Option<&String>, parts: &[&Finding]) -> Finding {
    let numbers = parts.iter().filter_map(|part| match &part.measured {
        Ok(Found::Number(number)) => Some((part, number.value)),
        _ => None,
    });
    let (measured, values): (Vec<&&Finding>, Vec<f64>) = numbers.unzip();
    let unique = |word: fn(&Finding) -> &String| {
        let mut words: Vec<&str> = measured.iter().map(|part| word(part).as_str()).collect();
        words.sort_unstable();
        words.dedup();
        words.join(", ")
    };
    let found = match values.len() {
        0 => Err(parts.iter().find_map(|part| part.measured.clone().err()).unwrap_or_else(|| "no requests".to_owned())),
        count => Ok(Found::Number(Measured::exact(values.iter().sum::<f64>() / count as f64))),
    };
    let published = row.published.get(MEAN).cloned();
    Finding {
        row: index,
        of: of.cloned(),
        workload: match values.len() == row.workloads.len() {
            true => MEAN.to_owned(),
            false => format!("{MEAN} of {} in {}", values.len(), row.workloads.len()),
        },
        from: unique(|part| &part.from),
        source: unique(|part| &part.source),
        requests: None,
        deviation: deviation(row, published.as_ref(), found.as_ref().ok()),
        published,
        measured: found,
        sign: None,
        order: None,
        idle: measured.iter().map(|part| part.idle.clone()).reduce(Option::and).flatten(),
        overloaded: measured.iter().any(|part| part.overloaded),
    }
}

fn factor(unit: &str) -> f64 {
    UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, factor)| *factor)
}

/// A measure of a configuration, or why there is none.
pub(super) fn taken(name: &str, measure: &str, ground: &Ground) -> Result<Measured, String> {
    let outcome = ground.outcomes.get(name).ok_or_else(|| "not run".to_owned())?;
    let result = outcome.result().ok_or_else(|| format!("{name}: {}", outcome.why().unwrap_or("not run")))?;
    measure::value(result, measure).ok_or_else(|| match measure::at_least(result, measure) {
        Some(bound) => format!("{name}: {measure} is at least {}, and no more is known", units::whole(bound as u64)),
        None => format!("{name} has no {measure} here"),
    })
}

/// What a row says of a configuration, in its unit.
fn related(row: &Row, name: &str, ground: &Ground) -> Result<Measured, String> {
    let own = taken(name, &row.measure, ground)?;
    let factor = factor(row.unit);
    let other = |measure: &str, name: Option<&String>| taken(name.map_or("", String::as_str), measure, ground);
    let divided = |part: f64, whole: f64, factor: f64| {
        let zero = || match row.relation {
            Relation::Share => format!("{name}: {} is 0", row.whole.as_deref().unwrap_or_default()),
            _ => format!("{}: {} is 0", row.against.as_deref().unwrap_or_default(), row.measure),
        };
        sim::report::ratio(part * factor, whole).map(Measured::exact).ok_or_else(zero)
    };
    match row.relation {
        Relation::Share => {
            let whole = taken(name, row.whole.as_deref().unwrap_or_default(), ground)?;
            divided(own.value, whole.value, factor)
        }
        Relation::Change => {
            let base = other(&row.measure, row.against.as_ref())?.value;
            divided(own.value - base, base, 100.0)
        }
        Relation::Ratio => divided(own.value, other(&row.measure, row.against.as_ref())?.value, 1.0),
        Relation::Difference => {
            Ok(Measured::exact((own.value - other(&row.measure, row.against.as_ref())?.value) * factor))
        }
        Relation::Value | Relation::Least | Relation::Most => {
            Ok(Measured { value: own.value * factor, half_width_99: own.half_width_99.map(|width| width * factor) })
        }
    }
}

/// The configurations with the least or most of the measure, as a rule one; none, if all have nothing of it.
fn chosen(row: &Row, ground: &Ground) -> Result<String, String> {
    let sign = if row.relation == Relation::Least { 1.0 } else { -1.0 };
    let value = |name: &String| taken(name, &row.measure, ground).map(|measured| sign * measured.value);
    let values: Vec<f64> = row.of.iter().map(value).collect::<Result<_, String>>()?;
    let best = values.iter().copied().fold(f64::INFINITY, f64::min);
    let names: Vec<&str> =
        row.of.iter().zip(&values).filter(|(_, value)| **value == best).map(|(name, _)| name.as_str()).collect();
    match values.iter().all(|value| *value == 0.0) && names.len() > 1 {
        true => Err(format!("{} is 0 for all", row.measure)),
        false => Ok(names.join(" = ")),
    }
}

/// Whether deviations of this unit are differences.
pub(super) fn in_points(unit: &str) -> bool {
    matches!(unit, "%" | "points")
}

fn deviation(row: &Row, published: Option<&Published>, measured: Option<&Found>) -> Option<f64> {
    let Found::Number(Measured { value, .. }) = measured? else { return None };
    let published = match *published? {
        Published::Number(number) => number,
        Published::Range(low, high) => value.clamp(low, high),
        Published::Name(_) => return None,
    };
    match in_points(row.unit) {
        true => Some(value - published),
        false => sim::report::ratio(100.0 * (value - published), published),
    }
}

/// Whether a value lies on the published side of what would be no difference. A range may reach to that, and a value
/// within it is on its side; a range about it says that there is hardly a difference, and only what is within agrees.
fn sign(published: &Published, value: f64, zero: f64) -> Option<bool> {
    let measured = value.partial_cmp(&zero);
    match *published {
        Published::Number(number) => (number != zero).then(|| measured == number.partial_cmp(&zero)),
        Published::Range(low, high) if (low..=high).contains(&value) => Some(true),
        Published::Range(low, high) if low < zero && zero < high => Some(false),
        Published::Range(low, _) => Some(measured == Some(if low < zero { Ordering::Less } else { Ordering::Greater })),
        Published::Name(_) => None,
    }
}

/// Whether one published figure is below another; ranges that overlap tell no order.
fn is_below(one: &Published, other: &Published) -> Option<bool> {
    let ends = |published: &Published| match *published {
        Published::Number(number) => Some((number, number)),
        Published::Range(low, high) => Some((low, high)),
        Published::Name(_) => None,
    };
    let ((low, high), (other_low, other_high)) = (ends(one)?, ends(other)?);
    if high < other_low { Some(true) } else { (low > other_high).then_some(false) }
}

/// Sign and order, and whether there was nothing to order: it and all that it is compared with are 0. The choice of a
/// configuration is an order. Where the published figures differ, equal measured ones keep no order.
fn judged(experiment: &Experiment, finding: &Finding, all: &[Finding]) -> (Option<bool>, Option<bool>, bool) {
    let row = &experiment.rows[finding.row];
    let (Some(published), Ok(measured)) = (finding.published.as_ref(), finding.measured.as_ref()) else {
        return (None, None, false);
    };
    let value = match (measured, published) {
        (Found::Name(name), Published::Name(expected)) => return (None, Some(name == expected), false),
        (Found::Number(number), _) => number.value,
        (Found::Name(_), _) => return (None, None, false),
    };
    let zero = match row.relation {
        Relation::Change | Relation::Difference => Some(0.0),
        Relation::Ratio => Some(1.0),
        _ => None,
    };
    let sign = zero.and_then(|zero| sign(published, value, zero));
    // Its place among the figures of one kind: the same measure of other configurations.
    let kind = |row: &Row| {
        let Row { relation, measure, whole, against, unit, .. } = row.clone();
        (relation, measure, whole, against, unit)
    };
    let peers = all.iter().filter(|other| {
        (&other.workload, &other.source) == (&finding.workload, &finding.source)
            && (other.row, &other.of) != (finding.row, &finding.of)
            && kind(&experiment.rows[other.row]) == kind(row)
    });
    let compared: Vec<(f64, bool)> = peers
        .filter_map(|other| match &other.measured {
            Ok(Found::Number(number)) => Some((number.value, is_below(published, other.published.as_ref()?)?)),
            _ => None,
        })
        .collect();
    let absolute = matches!(row.relation, Relation::Value | Relation::Share);
    let nothing = absolute && !compared.is_empty() && value == 0.0 && compared.iter().all(|(other, _)| *other == 0.0);
    let keeps = |&(other, below): &(f64, bool)| if below { value < other } else { value > other };
    let order = (!compared.is_empty() && !nothing).then(|| compared.iter().all(keeps));
    (sign, order, nothing)
}

/// A published value as it is printed.
pub(super) fn published_text(published: &Published, unit: &str) -> String {
    let unit = suffix(unit);
    match published {
        Published::Number(number) => format!("{}{unit}", units::number(*number)),
        Published::Range(low, high) if high.is_infinite() => format!("≥ {}{unit}", units::number(*low)),
        Published::Range(low, high) if low.is_infinite() => format!("≤ {}{unit}", units::number(*high)),
        Published::Range(low, high) => format!("{} to {}{unit}", units::number(*low), units::number(*high)),
        Published::Name(name) => name.clone(),
    }
}

/// A unit behind its number.
pub(super) fn suffix(unit: &str) -> String {
    match unit {
        "" => String::new(),
        "times" => "×".to_owned(),
        unit => format!(" {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::reproduce::file::Paper;
    use crate::testing::result;
    use sim::report::SchemeResult;

    const PAPER: &str = "title = 'T'\ndevice = 'lsftl-paper'\n[[workload]]\nname = 'A'\ntwin = 'twin:financial1'\n\
                         [[workload]]\nname = 'B'\ntwin = 'twin:financial1'\n";

    fn experiment(rows: &str) -> Experiment {
        let paper = Paper::read("p", "paper.toml", PAPER).unwrap();
        let text = format!(
            "title = 'T'\nsource = 's'\nsays = 's'\nconfiguration = [{{ name = 'page' }}, {{ name = 'dftl' }}, \
             {{ name = 'small', scheme = 'dftl' }}]\n{rows}"
        );
        Experiment::read(&paper, "e", "e.toml", &text).unwrap()
    }

    fn ran(result: SchemeResult) -> Outcome {
        Outcome::Ran(Box::new(result))
    }

    /// page answers in 100 µs, dftl in 150, small in 300; under B everything takes twice as long.
    fn grounds() -> Vec<Ground> {
        let ground = |workload: &str, slower: f64| Ground {
            workload: workload.into(),
            index: 0,
            kind: Kind::Twin,
            source: format!("twin:{workload}"),
            served: Served::default(),
            outcomes: BTreeMap::from([
                ("page".into(), ran(result("page", 100.0 * slower, 2.0, 0.0))),
                ("dftl".into(), ran(result("dftl", 150.0 * slower, 2.0, 0.25))),
                ("small".into(), ran(result("dftl", 300.0 * slower, 2.0, 0.5))),
            ]),
        };
        vec![ground("A", 1.0), ground("B", 2.0)]
    }

    fn number(finding: &Finding) -> f64 {
        match &finding.measured {
            Ok(Found::Number(number)) => number.value,
            other => panic!("{other:?}"),
        }
    }

    /// The findings of one row.
    fn of(row: &str) -> Vec<Finding> {
        findings(&experiment(&format!("[[row]]\nlabel = 'r'\n{row}")), &grounds())
    }

    #[test]
    fn relations() {
        let value = of("measure = 'cache.hit_ratio'\nof = 'dftl'\nunit = '%'\npublished = { A = 70 }");
        assert_eq!((number(&value[0]), value[0].deviation, value[0].holds()), (75.0, Some(5.0), None));
        assert_eq!((value[1].published.is_none(), value[1].deviation), (true, None));
        let change =
            of("measure = 'response_us.mean'\nrelation = 'change'\nof = 'dftl'\nagainst = 'page'\npublished = 40");
        assert_eq!((number(&change[0]), change[0].deviation, change[0].holds()), (50.0, Some(10.0), Some(true)));
        assert_eq!(number(&change[1]), 50.0);
        let wrong =
            of("measure = 'response_us.mean'\nrelation = 'change'\nof = 'dftl'\nagainst = 'page'\npublished = -40");
        assert_eq!((wrong[0].deviation, wrong[0].holds()), (Some(90.0), Some(false)));
        let ratio =
            of("measure = 'response_us.mean'\nrelation = 'ratio'\nof = 'small'\nagainst = 'page'\npublished = 2");
        assert_eq!((number(&ratio[0]), ratio[0].deviation, ratio[0].holds()), (3.0, Some(50.0), Some(true)));
        let points = of("measure = 'cache.hit_ratio'\nrelation = 'difference'\nof = 'small'\nagainst = 'dftl'\n\
                         published = [-inf, -20]");
        assert_eq!((number(&points[0]), points[0].deviation, points[0].holds()), (-25.0, Some(0.0), Some(true)));
        let share = of("measure = 'by_cause.translation_load.us'\nrelation = 'share'\nwhole = 'tp_us'\nof = 'dftl'\n\
                        published = [0, 10]");
        let (load, all) = (250_000.0 * 25.0, 250_000.0 * 25.0 + 125_000.0 * 225.0 + 31_250.0 * 225.0 + 1953.0 * 1500.0);
        assert!((number(&share[0]) - 100.0 * load / all).abs() < 1e-9);
        assert!((share[0].deviation.unwrap() - (100.0 * load / all - 10.0)).abs() < 1e-9, "from the nearer end");
        let least = of("measure = 'response_us.mean'\nrelation = 'least'\nof = ['small', 'dftl']\npublished = 'dftl'");
        assert_eq!((least[0].measured.clone(), least[0].holds()), (Ok(Found::Name("dftl".into())), Some(true)));
        let row = "measure = 'by_cause.host.programs'\nrelation = 'least'\npublished = 'dftl'\n";
        let equal = of(&format!("{row}of = ['small', 'dftl']"));
        assert_eq!(
            (equal[0].measured.clone(), equal[0].holds()),
            (Ok(Found::Name("small = dftl".into())), Some(false))
        );
        let none = of(&format!("{row}of = ['small', 'dftl']").replace("host.programs", "swap.programs"));
        assert_eq!(none[0].measured, Err("by_cause.swap.programs is 0 for all".into()));
        let most = of("measure = 'response_us.mean'\nrelation = 'most'\nof = ['small', 'dftl']\npublished = 'dftl'");
        assert_eq!((most[0].measured.clone(), most[0].holds()), (Ok(Found::Name("small".into())), Some(false)));
    }

    /// What broke: a life that the model of the cells cut off was compared as if its end were known.
    #[test]
    fn a_life_that_is_only_bounded_is_compared_with_nothing() {
        use sim::report::{Life, Lifetime};
        let life = |drive_writes| Some(Life { drive_writes, ..Life::default() });
        let with = |lifetime| ran(SchemeResult { lifetime: Some(lifetime), ..result("page", 100.0, 2.0, 0.0) });
        let mut grounds = grounds();
        for ground in &mut grounds {
            let known = Lifetime { known: life(40.0), ..Lifetime::default() };
            ground.outcomes.insert("page".into(), with(known));
            let bounded = Lifetime { at_least: life(99.9), ..Lifetime::default() };
            ground.outcomes.insert("dftl".into(), with(bounded));
        }
        let of = |row: &str| {
            let row = format!("[[row]]\nlabel = 'r'\nmeasure = 'lifetime.drive_writes'\n{row}");
            findings(&experiment(&row), &grounds)[0].measured.clone()
        };
        assert_eq!(of("of = 'page'"), Ok(Found::Number(Measured::exact(40.0))));
        let told = Err("dftl: lifetime.drive_writes is at least 99, and no more is known".to_owned());
        assert_eq!(of("of = 'dftl'"), told);
        assert_eq!(of("relation = 'change'\nof = 'dftl'\nagainst = 'page'"), told);
        assert_eq!(of("relation = 'ratio'\nof = 'page'\nagainst = 'dftl'"), told);
        assert_eq!(of("relation = 'most'\nof = ['page', 'dftl']"), told);
    }

    #[test]
    fn the_mean_is_over_workloads() {
        let all = of("measure = 'response_us.mean'\nunit = 'µs'\nof = 'dftl'\npublished = { mean = 200 }");
        assert_eq!(all.len(), 3);
        let mean = &all[2];
        assert_eq!((mean.workload.as_str(), mean.from.as_str(), number(mean)), ("mean", "twin", 225.0));
        assert_eq!((mean.deviation, mean.source.as_str()), (Some(12.5), "twin:A, twin:B"));
        // What could not be run is left out, and said to be.
        let mut grounds = grounds();
        grounds[1].outcomes.insert("dftl".into(), Outcome::Not("there is no scheme dftl".into()));
        let experiment = experiment("[[row]]\nlabel = 'r'\nmeasure = 'response_us.mean'\nof = 'dftl'\nmean = true");
        let all = findings(&experiment, &grounds);
        assert_eq!(all[1].measured, Err("dftl: there is no scheme dftl".into()));
        assert_eq!((all[2].workload.as_str(), number(&all[2])), ("mean of 1 in 2", 150.0));
    }

    #[test]
    fn a_value_holds_if_its_place_among_its_peers_does() {
        let rows = |small: u32| {
            format!(
                "[[row]]\nlabel = 'a'\nmeasure = 'miss_ratio'\nunit = '%'\nof = 'dftl'\npublished = 30\n\
                 [[row]]\nlabel = 'b'\nmeasure = 'miss_ratio'\nunit = '%'\nof = 'small'\npublished = {small}\n"
            )
        };
        let holds = |small| -> Vec<Option<bool>> {
            findings(&experiment(&rows(small)), &grounds()).iter().map(|finding| finding.holds()).collect()
        };
        assert_eq!(holds(40), [Some(true); 4]);
        assert_eq!(holds(20), [Some(false); 4]);
        assert_eq!(holds(30), [None; 4], "equal figures have no order");
    }

    /// The one that was published as the greater of two equal ones held, and the other did not.
    #[test]
    fn a_tie_keeps_no_order_and_zeros_have_none() {
        let rows = |measure: &str| {
            let row = |of: &str, published: u32| {
                format!("[[row]]\nlabel = '{of}'\nmeasure = '{measure}'\nof = '{of}'\npublished = {published}\n")
            };
            row("dftl", 30) + &row("small", 40)
        };
        let of = |measure: &str| findings(&experiment(&rows(measure)), &grounds());
        let holds = |measure: &str| of(measure).iter().map(|one| (one.order, one.exercised())).collect::<Vec<_>>();
        assert_eq!(holds("by_cause.host.programs"), [(Some(false), true); 4]);
        assert_eq!(holds("by_cause.swap.programs"), [(None, false); 4]);
        let both = "measure = 'by_cause.swap.us'\nrelation = 'difference'\nof = 'small'\nagainst = 'dftl'\n\
                    published = 2";
        let none = &self::of(both)[0];
        assert_eq!((none.exercised(), none.holds()), (false, None), "no difference between nothing and nothing");
    }

    #[test]
    fn a_change_holds_if_its_sign_and_its_place_do() {
        let row = |of: &str, published: &str| {
            format!(
                "[[row]]\nlabel = '{of}'\nmeasure = 'response_us.mean'\nrelation = 'change'\nof = '{of}'\n\
                 against = 'page'\npublished = {published}\n"
            )
        };
        let holds = |dftl, small| -> Vec<Option<bool>> {
            let experiment = experiment(&(row("dftl", dftl) + &row("small", small)));
            findings(&experiment, &grounds()).iter().map(|finding| finding.holds()).collect()
        };
        assert_eq!(holds("50", "200"), [Some(true); 4]);
        assert_eq!(holds("80", "60"), [Some(false); 4], "both slower than page, but in another order");
        assert_eq!(holds("-10", "60"), [Some(false), Some(false), Some(true), Some(true)]);
        assert_eq!(holds("[-10, 300]", "[-300, 210]"), [Some(true); 4], "within ranges that overlap");
        assert_eq!(holds("[220, 300]", "[0, 210]"), [Some(false); 4], "one range is above the other");
        assert_eq!(holds("[-90, 0]", "[-90, 0]"), [Some(false); 4], "outside, and of another sign");
        assert_eq!(
            holds("[-1, 5]", "[-90, 500]")[0],
            Some(false),
            "hardly a difference was published, and there is one"
        );
    }

    #[test]
    fn the_sign_of_a_range() {
        let of = |low, high, value| sign(&Published::Range(low, high), value, 1.0).unwrap();
        assert!(of(1.0, f64::INFINITY, 1.0) && of(1.0, f64::INFINITY, 7.0) && !of(1.0, f64::INFINITY, 0.9));
        assert!(of(0.0, 1.0, 0.3) && !of(0.0, 1.0, 1.1));
        assert!(of(1.3, 18.8, 30.0) && of(1.3, 18.8, 1.1) && !of(1.3, 18.8, 0.9));
        assert!(of(0.9, 1.2, 1.1) && !of(0.9, 1.2, 1.3) && !of(0.9, 1.2, 0.8));
        assert_eq!(sign(&Published::Number(1.0), 2.0, 1.0), None, "no difference has no sign");
        assert!(!of(1.3, 18.8, 1.0) && !of(0.2, 0.9, 1.0), "where a difference was published, none is none");
        assert_eq!(sign(&Published::Number(-40.0), 0.0, 0.0), Some(false));
        assert_eq!(sign(&Published::Number(40.0), 0.0, 0.0), Some(false));
    }

    #[test]
    fn a_row_tells_whether_its_run_came_to_the_matter() {
        let row = "measure = 'response_us.mean'\nrelation = 'change'\nof = ['dftl', 'page']\nagainst = 'page'\n\
                   published = 50\nexercised-by = 'by_cause.translation_update.programs'";
        let found = of(row);
        let of = |name: &str| found.iter().find(|one| one.of.as_deref() == Some(name)).unwrap();
        assert_eq!((of("dftl").exercised(), of("dftl").sign), (true, Some(true)));
        // page has no translation pages.
        assert_eq!((of("page").exercised(), of("page").holds()), (false, None));
    }

    #[test]
    fn published_values_as_printed() {
        assert_eq!(published_text(&Published::Number(41.4), "%"), "41.4 %");
        assert_eq!(published_text(&Published::Number(3.0), "times"), "3.00×");
        assert_eq!(published_text(&Published::Range(90.0, f64::INFINITY), "%"), "≥ 90.0 %");
        assert_eq!(published_text(&Published::Range(f64::NEG_INFINITY, 0.7), "points"), "≤ 0.700 points");
        assert_eq!(published_text(&Published::Range(-2.0, 3.5), ""), "-2.00 to 3.50");
    }
}
