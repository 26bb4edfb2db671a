use sim::check::*;
#[test]
fn d() {
    for s in ["dftl", "dftl-e", "page"] {
        let mut c = CheckConfig::new(s);
        c.cuts = Cuts::Count(20_000);
        let r = check(&c).unwrap();
        println!("{r}");
        for f in r.failures.iter().take(3) {
            println!("{f:?}");
            for l in replay(&c, &f.replay.parse().unwrap())
                .unwrap()
                .iter()
                .rev()
                .take(40)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
            {
                println!("   {l}");
            }
        }
    }
}
