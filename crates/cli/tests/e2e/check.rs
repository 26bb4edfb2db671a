//! `ftlab check`, as a user runs it.

use crate::common::Directory;

#[test]
fn a_scheme_that_holds_is_reported() {
    let directory = Directory::new();
    let text = directory.ftlab("check --scheme page --cuts 100 --operations 100 --seeds 8").succeeded().stdout;
    assert!(text.starts_with("page: held over ") && text.contains("on 8 devices\n"), "{text}");
}

#[test]
fn a_write_buffer_is_checked_with_its_scheme() {
    let directory = Directory::new();
    let line = "check --scheme page --buffer bplru --cuts 400 --operations 200 --seeds 6";
    let text = directory.ftlab(line).succeeded().stdout;
    assert!(text.starts_with("page behind bplru: held over "), "{text}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_check_tells_what_it_checked() {
    let directory = Directory::new();
    let text = directory.interrupted("check --cuts all --operations 10000").stdout;
    assert!(text.starts_with("simple: interrupted; held so far over "), "{text}");
    assert!(text.contains("\npage: not checked\ndftl: not checked\n"), "{text}");
}

#[test]
fn a_replay_tells_what_happened() {
    let directory = Directory::new();
    let text = directory.ftlab("check --scheme page --replay 0:5").succeeded().stdout;
    assert!(text.starts_with("page 0:5\n") && text.ends_with("nothing went wrong\n"), "{text}");
}

#[test]
fn images_are_attacked() {
    let directory = Directory::new();
    let text = directory.ftlab("check --images --scheme lazyftl --operations 60 --seeds 4").succeeded().stdout;
    assert!(text.starts_with("lazyftl: held over ") && text.contains(" images in use\n"), "{text}");
    assert_eq!(text, directory.ftlab("check --images --scheme lazyftl --operations 60 --seeds 4").succeeded().stdout);
    let set = "check --images --scheme page --operations 60 --seeds 2 --set durable-trim=off";
    assert!(directory.ftlab(set).succeeded().stdout.starts_with("page: held over "));
}

#[test]
fn the_server_is_attacked() {
    let directory = Directory::new();
    let text = directory.ftlab("check --server --scheme page --operations 100 --seeds 2").succeeded().stdout;
    assert!(text.starts_with("page: held over ") && text.contains(" clients to 2 servers\n"), "{text}");
}

#[test]
fn by_default_all_parts_of_a_scheme_are_checked() {
    let directory = Directory::new();
    let text = directory.ftlab("check --scheme page --operations 30 --seeds 4").succeeded().stdout;
    for part in [" power cuts", " images in use\n", " clients to 4 servers\n"] {
        assert!(
            text.lines().any(|line| format!("{line}\n").contains(part) && line.starts_with("page: held")),
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let directory = Directory::new();
    for (line, expected) in [
        ("--scheme dtfl", "unknown scheme \"dtfl\"; did you mean \"dftl\"?"),
        ("--scheme null", "scheme null keeps no data"),
        ("--scheme page --replay 7", "must be SEED:OPERATION"),
        ("--scheme page --replay 7:1/storm", "must be SEED:OPERATION"),
        (
            "--scheme page --replay 25:fewst.1.1",
            "disturb, life, fewest; SEED:PART.OPERATION where it is one of remounts",
        ),
        ("--scheme all --replay 7:1", "add --scheme NAME"),
        ("--cuts some", "--cuts"),
        ("--scheme page --set wear-levelling=off --set wear-threshold=3", "wear-threshold has no effect with"),
        ("--scheme page --set ecc=agcr --set ecc-n=2", "ecc-n has no effect with ecc=agcr"),
        ("--images --faults cut", "cannot be used with"),
        ("--server --cuts 100", "cannot be used with"),
        ("--images --scheme page --set wear-levling=off", "wear-levling"),
        ("--images --scheme page --set wear-levelling=off --set wear-threshold=3", "wear-threshold has no effect with"),
        ("--buffer bprlu", "--buffer: unknown write buffer \"bprlu\"; did you mean \"bplru\"?"),
    ] {
        let message = directory.ftlab(&format!("check {line}")).refused();
        assert!(message.contains(expected), "{line}: {message}");
    }
}
