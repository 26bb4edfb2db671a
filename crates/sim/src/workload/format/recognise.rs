//! Which format a trace has, by its content; and if it has none, which come nearest and why they are not it.

use super::field::{Malformed, Parsed, quote};
use super::volumes::Volumes;
use super::{Example, FORMATS, Head, Parser, TraceFormat};

/// The formats whose check accepts these first bytes: one if recognised, none if not.
pub fn detect<'a>(head: &'a Head<'_>) -> impl Iterator<Item = &'static TraceFormat> + use<'a> {
    FORMATS.iter().filter(move |format| (format.detect)(head))
}

/// What is wrong, and what to do.
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) fix: String,
}

/// Formats named as near.
const NEAREST: usize = 3;

/// A line is like another if at least this share of its fields is.
const ALIKE: f64 = 0.5;

/// The format of a trace that starts like this.
pub(super) fn recognise(head: &Head<'_>) -> Result<&'static TraceFormat, Fault> {
    let mut candidates = detect(head);
    // The reader of a format that is nearly met says in which line it is not, and why.
    match (candidates.next().or_else(|| nearly(head)), candidates.next()) {
        (Some(format), None) => Ok(format),
        (Some(one), Some(other)) => Err(Fault {
            what: format!("this can be {} as well as {}", one.name, other.name),
            fix: "say which with --format".to_owned(),
        }),
        (None, _) => {
            let start = head.bytes().trim_ascii_start().split(|&byte| byte == b'\n').next().unwrap_or_default();
            let mut what = format!("the format is not recognised; it starts with {}", quote(start.trim_ascii_end()));
            let nearest = if is_text(head) { nearest_text(head) } else { all_binary(head) };
            let mut fix = format!("name it with --format, one of {}", names());
            if !nearest.is_empty() {
                what += &format!("; nearest: {}", nearest.join("; "));
                fix = format!("mend the records, or {fix}");
            }
            Err(Fault { what, fix })
        }
    }
}

/// The only format that this can be, whatever it was taken for.
pub(super) fn only(head: &Head<'_>) -> Option<&'static TraceFormat> {
    let mut candidates = detect(head);
    candidates.next().filter(|_| candidates.next().is_none())
}

/// The names of all formats.
pub(super) fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// The format whose only fault in most of these lines is a number that is too large, an address above all: not
/// recognised, for no record of it can be read, but meant.
fn nearly(head: &Head<'_>) -> Option<&'static TraceFormat> {
    let mut meant = FORMATS.iter().filter(|format| match (format.parser)(head) {
        Parser::Text(mut parser) => {
            let mut volumes = Volumes::default();
            head.mostly(|line| parser.line(line, &mut volumes).is_err_and(|malformed| malformed.is_of_size()))
        }
        Parser::Binary(_) => false,
    });
    meant.next().filter(|_| meant.next().is_none())
}

/// Whether this can be meant as text: no control characters but white space, no byte that no encoding of text has.
fn is_text(head: &Head<'_>) -> bool {
    head.bytes().iter().take(4096).all(|&byte| (b' '..0xf8).contains(&byte) || byte.is_ascii_whitespace())
}

/// The text formats that come nearest, each with the first line that it trips on.
///
/// Nearest is what reads most lines. Of those that read none, it is what the line looks like: numbers, decimals, words
/// and single letters in the places where the format's example has them.
fn nearest_text(head: &Head<'_>) -> Vec<String> {
    let mut found: Vec<(usize, f64, String)> = Vec::new();
    for format in FORMATS {
        let (Parser::Text(mut parser), Example::Text(example)) = ((format.parser)(head), format.example) else {
            continue;
        };
        let mut volumes = Volumes::default();
        let (mut lines, mut fitting) = (0, 0);
        let mut first: Option<(usize, Malformed, f64)> = None;
        for (index, line) in head.text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            lines += 1;
            match parser.line(line, &mut volumes) {
                Ok(Parsed::Ignored) => {}
                Ok(_) => fitting += 1,
                Err(why) if first.is_none() => {
                    let like = example.lines().map(|example| likeness(line, example.as_bytes())).fold(0.0, f64::max);
                    first = Some((index + 1, why, like));
                }
                Err(_) => {}
            }
        }
        let Some((line, Malformed(why), like)) = first else { continue };
        let text = match fitting {
            0 if like < ALIKE => continue,
            0 => format!("{} (line {line}: {why})", format.name),
            _ => format!("{} (reads {fitting} of the first {lines} lines; line {line}: {why})", format.name),
        };
        found.push((fitting, like, text));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    found.truncate(NEAREST);
    found.into_iter().map(|(_, _, text)| text).collect()
}

/// The binary formats, each with what it finds wrong in the first record.
fn all_binary(head: &Head<'_>) -> Vec<String> {
    let why = |format: &'static TraceFormat| match (format.parser)(head) {
        Parser::Text(_) => None,
        Parser::Binary(mut parser) => {
            let bytes = parser.bytes(head.bytes());
            let why = match head.bytes().get(..bytes).map(|record| parser.record(record, &mut Volumes::default())) {
                None => "it is cut short".into(),
                Some(Err(Malformed(why))) => why,
                Some(Ok(_)) => "the records after it are not of this format".into(),
            };
            Some(format!("{} (record 1: {why})", format.name))
        }
    };
    FORMATS.iter().filter_map(why).collect()
}

/// What a field looks like.
#[derive(PartialEq, Eq)]
enum Shape {
    Number,
    Decimal,
    Letter,
    Word,
}

fn shapes(line: &[u8], separators: fn(u8) -> bool) -> Vec<Shape> {
    let fields = line.split(|&byte| separators(byte)).map(<[u8]>::trim_ascii).filter(|field| !field.is_empty());
    let shape = |field: &[u8]| match field {
        _ if field.iter().all(u8::is_ascii_digit) => Shape::Number,
        _ if field.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => Shape::Decimal,
        [one] if one.is_ascii_alphabetic() => Shape::Letter,
        _ => Shape::Word,
    };
    fields.map(shape).collect()
}

/// The share of fields that are alike in both lines, place by place, when both are cut as the example asks.
fn likeness(line: &[u8], example: &[u8]) -> f64 {
    let commas = example.iter().filter(|&&byte| byte == b',').count() > 1;
    let separators: fn(u8) -> bool =
        if commas { |byte| matches!(byte, b',' | b';') } else { |byte| byte.is_ascii_whitespace() };
    let (line, example) = (shapes(line, separators), shapes(example, separators));
    let alike = line.iter().zip(&example).filter(|(a, b)| a == b).count();
    alike as f64 / line.len().max(example.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{error_of, open, requests};
    use super::super::{FORMATS, OpenOptions};
    use super::*;

    #[test]
    fn a_wrong_format_is_told_what_it_looks_like() {
        let spc = b"0,1234567,8192,W,0.25\n1,2000,3072,r,0.3\n";
        let error = error_of(spc, Some("msr"));
        assert_eq!(error.line, 1);
        assert!(error.fix.contains("this looks like spc: leave --format out or say --format spc"), "{error}");
        let options = OpenOptions { format: Some("msr"), on_error: super::super::OnError::Skip, limit: None };
        let error = super::super::testing::drain(&mut open(spc, &options).unwrap()).unwrap_err();
        assert!(error.fix.contains("this looks like spc"), "{error}");
        let error = error_of(&[b"1,2,3,4".repeat(1 << 17)].concat(), Some("spc"));
        assert!(error.fix.contains("not a text trace"), "{error}");
        // What can be read as both is read as asked for, and said.
        let mqsim = open(b"1 0 8 8 1\n2 0 8 8 0\n", &OpenOptions { format: Some("disksim"), ..OpenOptions::default() });
        assert!(mqsim.unwrap().announcement().contains("its content looks like mqsim"));
        // Asked for and met: no advice.
        let error = error_of(b"0,1,512,R,0.1\n0,1,512,?,0.1\n0,1,512,R,0.2\n0,1,512,R,0.2\n", Some("spc"));
        assert!(!error.fix.contains("looks like"), "{error}");
    }

    #[test]
    fn the_nearest_formats_say_why_they_are_not_it() {
        let nearest = |text: &str| error_of(text.as_bytes(), None);
        // MSR with another word for the type.
        let error = nearest("128166372000000100,host,0,Fetch,1073741824,8192,331\n".repeat(3).as_str());
        assert!(error.what.contains("; nearest: msr (line 1: the type is `Fetch`, not Read or Write)"), "{error}");
        // SPC of which most lines miss the time.
        let error = nearest("\n0,1,512,R,0.1\n0,1,512,R\n0,1,512,R\n0,1,512,R\n");
        assert!(error.what.contains("nearest: spc (reads 1 of the first 4 lines; line 3: the time stamp"), "{error}");
        assert!(error.what.contains("it starts with `0,1,512,R,0.1`"), "an empty line shows nothing: {error}");
        // A size of 0 is not what tells a format from another; several are near.
        let error = nearest("12,W,4294967296,0,1577808000000000\n");
        assert!(error.what.contains("alibaba (line 1: the size is 0)"), "{error}");
        // Prose is near to nothing.
        let error = nearest("It was a dark and stormy night; the rain fell in torrents.\n");
        assert!(!error.what.contains("nearest"), "{error}");
        let error = error_of(&[0xff; 100], None);
        assert!(error.what.contains("blktrace (record 1: the magic is"), "{error}");
        assert!(error.what.contains("octf (record 1:") && error.what.contains("cloudphysics (record 1:"), "{error}");
    }

    #[test]
    fn empty_first_lines_and_a_byte_order_mark_hide_nothing() {
        for format in FORMATS {
            let Example::Text(example) = format.example else { continue };
            let plain = requests(example, format.name);
            for start in ["\n", "\r\n\r\n", "   \n", "\u{feff}", "\u{feff}\n"] {
                let (rows, intake) = requests(&format!("{start}{example}"), format.name);
                assert_eq!(rows, plain.0, "{} after {start:?}", format.name);
                assert_eq!(intake.skipped, 0);
            }
        }
    }
}
