//! The publications that schemes, policies and parameters come from, each under a key.
//!
//! Texts of rows name a publication by its key in braces: `{lsftl}, section IV-A`. [`cite`] puts the name there,
//! [`introduce`] authors, venue and year as well. A fact that none of the texts at hand gives is left out.

use alloc::format;
use alloc::string::String;

/// A publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paper {
    /// What rows call it.
    pub key: &'static str,
    /// What texts call it.
    pub name: &'static str,
    /// Family names, in the order of the title page.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it appeared; empty if unknown.
    pub venue: &'static str,
    /// The year in which it appeared; 0 if unknown.
    pub year: u16,
}

const fn paper(key: &'static str, name: &'static str, authors: &'static str, venue: &'static str, year: u16) -> Paper {
    Paper { key, name, authors, title: "", venue, year }
}

impl Paper {
    const fn titled(self, title: &'static str) -> Paper {
        Paper { title, ..self }
    }

    /// Name, authors, venue and year, as far as they are known.
    pub fn full(&self) -> String {
        let mut text = format!("{} ({}", self.name, self.authors);
        if !self.venue.is_empty() {
            text += &format!(", {} {}", self.venue, self.year);
        }
        text + ")"
    }

    /// Authors, title, venue and year, as a list of references has them; a fact that is unknown is left out.
    ///
    /// ```
    /// let bet = ftl::papers::by_key("bet").unwrap().reference();
    /// let title = "Endurance Enhancement of Flash-Memory Storage Systems: An Efficient Static Wear Leveling Design";
    /// assert_eq!(bet, format!("Chang, Hsieh, Kuo: {title}. DAC 2007"));
    /// ```
    pub fn reference(&self) -> String {
        let Paper { authors, title, venue, year, .. } = self;
        let place = if venue.is_empty() { String::new() } else { format!(". {venue} {year}") };
        format!("{authors}: {title}{place}")
    }
}

/// All publications, by key.
pub const PAPERS: &[Paper] = &[
    paper("aftl", "AFTL", "Wu, Kuo", "ICCAD", 2006)
        .titled("An Adaptive Two-Level Management for the Flash Translation Layer in Embedded Systems"),
    paper("agcr", "AGCR", "Li, Shi, Xue, Wu, Ji, Zhuge, Sha", "USENIX FAST", 2016).titled(
        "Access Characteristic Guided Read and Write Cost Regulation for Performance Improvement on \
         Flash Memory",
    ),
    paper("bast", "BAST", "Kim, Kim, Noh, Min, Cho", "IEEE Transactions on Consumer Electronics", 2002)
        .titled("A Space-Efficient Flash Translation Layer for CompactFlash Systems"),
    paper("bet", "BET", "Chang, Hsieh, Kuo", "DAC", 2007)
        .titled("Endurance Enhancement of Flash-Memory Storage Systems: An Efficient Static Wear Leveling Design"),
    paper("bloom", "the Bloom-filter paper", "Park, Du", "MSST", 2011)
        .titled("Hot Data Identification for Flash-based Storage Systems Using Multiple Bloom Filters"),
    paper("bplru", "BPLRU", "Kim, Ahn", "USENIX FAST", 2008)
        .titled("BPLRU: A Buffer Management Scheme for Improving Random Writes in Flash Storage"),
    paper("cast", "CAST", "Xu, Li, Xu", "IPCCC", 2012)
        .titled("CAST: A Page-Level FTL with Compact Address Mapping and Parallel Data Blocks"),
    paper("cdftl", "CDFTL", "Qin, Wang, Liu, Shao", "RTAS", 2011).titled(
        "A Two-Level Caching Mechanism for Demand-Based Page-Level Address Mapping in NAND Flash Memory \
         Storage Systems",
    ),
    paper("cflru", "CFLRU", "Park, Jung, Kang, Kim, Lee", "CASES", 2006)
        .titled("CFLRU: A Replacement Algorithm for Flash Memory"),
    paper("cftl", "CFTL", "Park, Debnath, Du", "SIGMETRICS", 2010)
        .titled("CFTL: A Convertible Flash Translation Layer Adaptive to Data Access Patterns"),
    paper("dftl", "DFTL", "Gupta, Kim, Urgaonkar", "ASPLOS", 2009).titled(
        "DFTL: A Flash Translation Layer Employing Demand-based Selective Caching of Page-level Address \
         Mappings",
    ),
    paper("ecc", "the differentiated-ECC paper", "Xia, Xiao, Wang, Xu", "", 0)
        .titled("Improving MLC Flash Performance with Workload-Aware Differentiated ECC"),
    paper("envy", "eNVy", "Wu, Zwaenepoel", "ASPLOS", 1994).titled("eNVy: A Non-Volatile, Main Memory Storage System"),
    paper("fab", "FAB", "Jo, Kim and others", "IEEE Transactions on Consumer Electronics", 2006)
        .titled("FAB: Flash-Aware Buffer Management Policy for Portable Media Players"),
    paper("fast", "FAST", "Lee, Park, Chung, Lee, Park, Song", "ACM TECS", 2007)
        .titled("A Log Buffer-Based Flash Translation Layer Using Fully-Associative Sector Translation"),
    paper("flashsim", "FlashSim", "Kim, Tauras, Gupta, Urgaonkar", "SIMUL", 2009)
        .titled("FlashSim: A Simulator for NAND Flash-based Solid-State Drives"),
    paper("last", "LAST", "Lee, Shin, Kim, Kim", "SIGOPS Operating Systems Review", 2008)
        .titled("LAST: Locality-Aware Sector Translation for NAND Flash Memory-Based Storage Systems"),
    paper("lazyftl", "LazyFTL", "Ma, Feng, Li", "SIGMOD", 2011)
        .titled("LazyFTL: A Page-Level Flash Translation Layer Optimized for NAND Flash Memory"),
    paper("lsftl", "LSFTL", "Li, Feng, Hua, Wang, Jiang, Zhou", "", 0)
        .titled("A Log-aware Synergized Scheme for Page-level FTL Design"),
    paper("nftl", "NFTL", "Ban", "US patent 5404485,", 1995).titled("Flash File System"),
    paper("rose", "the ROSE thesis", "Chiao", "National Chiao Tung University", 2013)
        .titled("A Study on the Design of High Performance Flash Translation Layers"),
    paper("scftl", "SCFTL", "Thontirawong, Ekpanyapong, Chongstitvatana", "", 0)
        .titled("SCFTL: An Efficient Caching Strategy for Page-Level Flash Translation Layer"),
    paper("sftl", "S-FTL", "Jiang, Zhang, Yuan, Hu, Chen", "MSST", 2011)
        .titled("S-FTL: An Efficient Address Translation for Flash Memory by Exploiting Spatial Locality"),
    paper("superblock", "Superblock", "Kang, Jo, Kim, Lee", "EMSOFT", 2006)
        .titled("A Superblock-based Flash Translation Layer for NAND Flash Memory"),
    paper("tpftl", "TPFTL", "Zhou, Wu, Huang, He, Xie, Zhou", "EuroSys", 2015)
        .titled("An Efficient Page-level FTL to Optimize Address Translation in Flash Memory"),
];

/// The publication of this key.
pub fn by_key(key: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.key == key)
}

/// The publications that a text names, in its order.
pub fn named(text: &str) -> impl Iterator<Item = &'static Paper> {
    text.split('{').skip(1).filter_map(|rest| by_key(rest.split_once('}')?.0))
}

/// The publications that a text names, each once, as `NAME. AUTHORS: TITLE. VENUE YEAR`.
pub fn references(text: &str) -> impl Iterator<Item = String> {
    let first = |&(place, paper): &(usize, &'static Paper)| named(text).position(|other| other == paper) == Some(place);
    named(text).enumerate().filter(first).map(|(_, paper)| format!("{}. {}", paper.name, paper.reference()))
}

/// A text with the name of each publication in place of its key.
///
/// ```
/// assert_eq!(ftl::papers::cite("{dftl}, section 3.3; ftlab"), "DFTL, section 3.3; ftlab");
/// ```
pub fn cite(text: &str) -> String {
    let mut out = String::from(text);
    for paper in named(text) {
        out = out.replace(&format!("{{{}}}", paper.key), paper.name);
    }
    out
}

/// As [`cite`]; the publication that the text begins with is given in full.
///
/// ```
/// let text = "{dftl}, algorithm 1, after {fast}";
/// assert_eq!(ftl::papers::introduce(text), "DFTL (Gupta, Kim, Urgaonkar, ASPLOS 2009), algorithm 1, after FAST");
/// ```
pub fn introduce(text: &str) -> String {
    match named(text).next().zip(text.strip_prefix('{').and_then(|rest| rest.split_once('}'))) {
        Some((paper, (_, rest))) => paper.full() + &cite(rest),
        None => cite(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{buffer, ecc_policy, gc, schemes::SCHEMES};
    use alloc::vec::Vec;

    #[test]
    fn publications_have_keys_of_their_own_and_in_order() {
        assert!(PAPERS.is_sorted_by(|one, next| one.key < next.key));
        for paper in PAPERS {
            assert!(![paper.key, paper.name, paper.authors, paper.title].contains(&""), "{paper:?}");
            assert_eq!(paper.venue.is_empty(), paper.year == 0, "{paper:?}");
        }
    }

    #[test]
    fn keys_become_names() {
        assert_eq!(cite("{rose}, chapter 3; {dftl}"), "the ROSE thesis, chapter 3; DFTL");
        assert_eq!(
            introduce("{dftl}, as {lsftl} has it"),
            "DFTL (Gupta, Kim, Urgaonkar, ASPLOS 2009), as LSFTL has it"
        );
        assert_eq!(introduce("{lsftl}"), "LSFTL (Li, Feng, Hua, Wang, Jiang, Zhou)");
        assert_eq!(introduce("baseline of {dftl}"), "baseline of DFTL");
    }

    /// Every key in a row is that of a publication, and every publication is named by a row.
    #[test]
    fn rows_name_publications_that_exist() {
        let mut texts: Vec<&str> = Vec::new();
        for row in SCHEMES {
            texts.push(row.paper);
            texts.extend(row.parameters().chain(row.fixed).map(|parameter| parameter.source));
        }
        for row in buffer::POLICIES {
            texts.push(row.paper);
            texts.extend(row.parameters.iter().map(|parameter| parameter.source));
        }
        texts.extend(gc::POLICIES.iter().map(|row| row.source));
        texts.extend(ecc_policy::POLICIES.iter().map(|row| row.source));
        for text in &texts {
            assert!(!text.is_empty() && !cite(text).contains(['{', '}']), "{text}");
        }
        for paper in PAPERS {
            assert!(texts.iter().any(|text| named(text).any(|named| named == paper)), "nothing names {}", paper.key);
        }
    }
}
