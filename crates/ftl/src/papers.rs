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

const fn paper(key: &'static str, name: &'static str, authors: &'static str, title: &'static str) -> Paper {
    Paper { key, name, authors, title, venue: "", year: 0 }
}

impl Paper {
    const fn at(self, venue: &'static str, year: u16) -> Paper {
        Paper { venue, year, ..self }
    }

    /// Name, authors, venue and year, as far as they are known.
    pub fn full(&self) -> String {
        let mut text = format!("{} ({}", self.name, self.authors);
        if !self.venue.is_empty() {
            text += &format!(", {} {}", self.venue, self.year);
        }
        text + ")"
    }
}

/// All publications, by key.
pub const PAPERS: &[Paper] = &[
    paper(
        "aftl",
        "AFTL",
        "Wu, Kuo",
        "An Adaptive Two-Level Management for the Flash Translation Layer in Embedded Systems",
    )
    .at("ICCAD", 2006),
    paper(
        "agcr",
        "AGCR",
        "Li, Shi, Xue, Wu, Ji, Zhuge, Sha",
        "Access Characteristic Guided Read and Write Cost Regulation for Performance Improvement on Flash Memory",
    )
    .at("USENIX FAST", 2016),
    paper(
        "bast",
        "BAST",
        "Kim, Kim, Noh, Min, Cho",
        "A Space-Efficient Flash Translation Layer for CompactFlash Systems",
    )
    .at("IEEE Transactions on Consumer Electronics", 2002),
    paper(
        "bet",
        "BET",
        "Chang, Hsieh, Kuo",
        "Endurance Enhancement of Flash-Memory Storage Systems: An Efficient Static Wear Leveling Design",
    )
    .at("DAC", 2007),
    paper(
        "bloom",
        "the Bloom-filter paper",
        "Park, Du",
        "Hot Data Identification for Flash-based Storage Systems Using Multiple Bloom Filters",
    )
    .at("MSST", 2011),
    paper(
        "bplru",
        "BPLRU",
        "Kim, Ahn",
        "BPLRU: A Buffer Management Scheme for Improving Random Writes in Flash Storage",
    )
    .at("USENIX FAST", 2008),
    paper(
        "cast",
        "CAST",
        "Xu, Li, Xu",
        "CAST: A Page-Level FTL with Compact Address Mapping and Parallel Data Blocks",
    )
    .at("IPCCC", 2012),
    paper(
        "cdftl",
        "CDFTL",
        "Qin, Wang, Liu, Shao",
        "A Two-Level Caching Mechanism for Demand-Based Page-Level Address Mapping in NAND Flash Memory Storage Systems",
    )
    .at("RTAS", 2011),
    paper("cflru", "CFLRU", "Park, Jung, Kang, Kim, Lee", "CFLRU: A Replacement Algorithm for Flash Memory")
        .at("CASES", 2006),
    paper(
        "cftl",
        "CFTL",
        "Park, Debnath, Du",
        "CFTL: A Convertible Flash Translation Layer Adaptive to Data Access Patterns",
    )
    .at("SIGMETRICS", 2010),
    paper(
        "dftl",
        "DFTL",
        "Gupta, Kim, Urgaonkar",
        "DFTL: A Flash Translation Layer Employing Demand-based Selective Caching of Page-level Address Mappings",
    )
    .at("ASPLOS", 2009),
    paper(
        "ecc",
        "the differentiated-ECC paper",
        "Xia, Xiao, Wang, Xu",
        "Improving MLC Flash Performance with Workload-Aware Differentiated ECC",
    ),
    paper("envy", "eNVy", "Wu, Zwaenepoel", "eNVy: A Non-Volatile, Main Memory Storage System").at("ASPLOS", 1994),
    paper("fab", "FAB", "Jo, Kim and others", "FAB: Flash-Aware Buffer Management Policy for Portable Media Players")
        .at("IEEE Transactions on Consumer Electronics", 2006),
    paper(
        "fast",
        "FAST",
        "Lee, Park, Chung, Lee, Park, Song",
        "A Log Buffer-Based Flash Translation Layer Using Fully-Associative Sector Translation",
    )
    .at("ACM TECS", 2007),
    paper(
        "flashsim",
        "FlashSim",
        "Kim, Tauras, Gupta, Urgaonkar",
        "FlashSim: A Simulator for NAND Flash-based Solid-State Drives",
    )
    .at("SIMUL", 2009),
    paper(
        "last",
        "LAST",
        "Lee, Shin, Kim, Kim",
        "LAST: Locality-Aware Sector Translation for NAND Flash Memory-Based Storage Systems",
    )
    .at("SIGOPS Operating Systems Review", 2008),
    paper(
        "lazyftl",
        "LazyFTL",
        "Ma, Feng, Li",
        "LazyFTL: A Page-Level Flash Translation Layer Optimized for NAND Flash Memory",
    )
    .at("SIGMOD", 2011),
    paper(
        "lsftl",
        "LSFTL",
        "Li, Feng, Hua, Wang, Jiang, Zhou",
        "A Log-aware Synergized Scheme for Page-level FTL Design",
    ),
    paper("nftl", "NFTL", "Ban", "Flash File System").at("US patent 5404485,", 1995),
    paper(
        "rose",
        "the ROSE thesis",
        "Chiao",
        "A Study on the Design of High Performance Flash Translation Layers",
    )
    .at("National Chiao Tung University", 2013),
    paper(
        "scftl",
        "SCFTL",
        "Thontirawong, Ekpanyapong, Chongstitvatana",
        "SCFTL: An Efficient Caching Strategy for Page-Level Flash Translation Layer",
    ),
    paper(
        "sftl",
        "S-FTL",
        "Jiang, Zhang, Yuan, Hu, Chen",
        "S-FTL: An Efficient Address Translation for Flash Memory by Exploiting Spatial Locality",
    )
    .at("MSST", 2011),
    paper(
        "superblock",
        "Superblock",
        "Kang, Jo, Kim, Lee",
        "A Superblock-based Flash Translation Layer for NAND Flash Memory",
    )
    .at("EMSOFT", 2006),
    paper(
        "tpftl",
        "TPFTL",
        "Zhou, Wu, Huang, He, Xie, Zhou",
        "An Efficient Page-level FTL to Optimize Address Translation in Flash Memory",
    )
    .at("EuroSys", 2015),
];

/// The publication of this key.
pub fn by_key(key: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.key == key)
}

/// The publications that a text names, in its order.
pub fn named(text: &str) -> impl Iterator<Item = &'static Paper> {
    text.split('{').skip(1).filter_map(|rest| by_key(rest.split_once('}')?.0))
}

/// A text with the name of each publication in place of its key.
pub fn cite(text: &str) -> String {
    let mut out = String::from(text);
    for paper in named(text) {
        out = out.replace(&format!("{{{}}}", paper.key), paper.name);
    }
    out
}

/// As [`cite`]; the publication that the text begins with is given in full.
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
            texts.extend(row.parameters.iter().map(|parameter| parameter.source));
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
