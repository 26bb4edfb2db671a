//! A trace as a source of requests: what all formats have in common.

use std::collections::VecDeque;
use std::io::{self, Read};

use super::clock::Clock;
use super::field::{Malformed, Parsed, Record, quote};
use super::input::Input;
use super::recognise::{names, only, recognise};
use super::{Head, OnError, OpenOptions, Parser, TraceFormat, Volumes, archive, by_name};
use crate::workload::{Intake, Operation, Request, Source, WorkloadError};

/// Decompressed bytes held at once; also the longest line or record.
const BUFFER_BYTES: usize = 256 << 10;

/// Decompressed bytes in a row without a request: no trace has that many, and a few kilobytes of compressed newlines
/// unfold to any number.
const BARREN_BYTES: u64 = 64 << 20;

/// Decompressed bytes the formats' checks see.
const HEAD_BYTES: usize = 64 << 10;

/// A trace being read: its format is known, its requests are not yet.
///
/// Its arrivals are what a [`Clock`] makes of its times.
pub struct TraceFile {
    name: String,
    format: &'static TraceFormat,
    asked: bool,
    /// What the content is, if it is clearly another format than the one asked for.
    looks_like: Option<&'static TraceFormat>,
    /// What was taken from an archive, and whether that was merged.
    archive: Option<(String, bool)>,
    on_error: OnError,
    /// Requests that may still be yielded.
    left: u64,
    input: Input,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The input has nothing more; what is in the buffer is all.
    exhausted: bool,
    parser: Parser,
    volumes: Volumes,
    clock: Clock<Pending>,
    /// Lines or records consumed.
    record: u64,
    /// Bytes since the last request.
    barren: u64,
    /// Requests found, yielded or not.
    found: u64,
    /// Requests found that no batch had room for.
    ready: VecDeque<Request>,
    finished: bool,
    failure: Option<WorkloadError>,
    intake: Intake,
}

impl TraceFile {
    /// Reads the head of a trace and recognises its compression and format.
    ///
    /// `name` stands for the trace in errors. Sim opens no files; whoever does hands the reader over.
    ///
    /// # Errors
    /// An unreadable, empty or unrecognised trace; an unknown `options.format`.
    pub fn from_reader(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: &OpenOptions<'_>,
    ) -> Result<Self, WorkloadError> {
        let fault =
            |what: String, fix: &str| WorkloadError { origin: name.to_owned(), line: 0, what, fix: fix.to_owned() };
        let asked = match options.format {
            None => None,
            Some(asked) => Some(by_name(asked).ok_or_else(|| {
                fault(
                    format!("there is no trace format {}", quote(asked.as_bytes())),
                    &format!("--format takes one of {}", names()),
                )
            })?),
        };
        let unreadable = |error: io::Error| fault(format!("cannot be read: {error}"), "");
        let empty = || fault("the file is empty".to_owned(), "check how it was copied");
        let mut input = Input::new(reader).map_err(unreadable)?.ok_or_else(empty)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let (mut end, mut exhausted) =
            read_head(&mut input, &mut buffer).map_err(|error| stream_error(name, 0, &input, &error))?;
        if end == 0 {
            return Err(fault("nothing is left after decompression".to_owned(), "check how it was compressed"));
        }
        let mut intake = Intake::default();
        let mut unpacked = None;
        if archive::is_tar(&buffer[..end]) {
            let stored = io::Cursor::new(buffer[..end].to_vec()).chain(&mut input);
            let lenient = options.on_error == OnError::Skip;
            let found = archive::unpack(stored, archive::UNPACKED_BYTES_MAX, lenient)
                .map_err(|found| fault(found.what, found.fix))?;
            // What follows the end mark belongs to the file, too, and to its hash.
            io::copy(&mut input, &mut io::sink()).map_err(|error| stream_error(name, 0, &input, &error))?;
            intake.skipped = found.damage.len() as u64;
            intake.first_skipped = found.damage.into_iter().next().map(|what| (0, what));
            unpacked = Some((found.note, found.merged));
            let nothing =
                || fault("there is nothing in the files of the tar archive".to_owned(), "check how it was made");
            input = Input::new(found.stream).map_err(unreadable)?.ok_or_else(nothing)?.within(input);
            (end, exhausted) =
                read_head(&mut input, &mut buffer).map_err(|error| stream_error(name, 0, &input, &error))?;
        }
        // Editors put this mark before text.
        let start = if buffer[..end].starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let head = Head::new(&buffer[start..end.min(HEAD_BYTES)], exhausted && end <= HEAD_BYTES);
        if head.bytes().trim_ascii().is_empty() {
            return Err(fault("there is nothing but white space".to_owned(), "check how it was made"));
        }
        let format = match asked {
            Some(format) => format,
            None => recognise(&head).map_err(|found| fault(found.what, &found.fix))?,
        };
        let looks_like = only(&head).filter(|other| other.name != format.name);
        let parser = (format.parser)(&head);
        Ok(Self {
            name: name.to_owned(),
            format,
            asked: asked.is_some(),
            looks_like,
            archive: unpacked,
            on_error: options.on_error,
            left: options.limit.unwrap_or(u64::MAX),
            input,
            buffer,
            start,
            end,
            exhausted,
            parser,
            volumes: Volumes::default(),
            clock: Clock::default(),
            record: 0,
            barren: 0,
            found: 0,
            ready: VecDeque::new(),
            finished: false,
            failure: None,
            intake,
        })
    }

    /// The format, recognised or asked for.
    pub fn format(&self) -> &'static TraceFormat {
        self.format
    }

    /// One line for people: what is read, in which units, with which choices.
    pub fn announcement(&self) -> String {
        let mut text = format!("{}: {}, {}", self.format.name, self.format.summary, self.format.units);
        let note = match &self.parser {
            Parser::Text(parser) => parser.note(),
            Parser::Binary(parser) => parser.note(self.archive.as_ref().is_some_and(|archive| archive.1)),
        };
        let looks_like = self.looks_like.map(|other| format!("its content looks like {}", other.name));
        let archive = self.archive.as_ref().map(|archive| archive.0.clone());
        let compression = self.input.compression().map(|name| format!("{name}-compressed"));
        for more in [note, looks_like, archive, compression].into_iter().flatten() {
            text.push_str("; ");
            text.push_str(&more);
        }
        text
    }

    /// The next record's bytes as a range of the buffer, or `None` at the end.
    #[inline]
    fn next_record(&mut self) -> Result<Option<(usize, usize)>, WorkloadError> {
        loop {
            let window = &self.buffer[self.start..self.end];
            let size = match &self.parser {
                Parser::Text(_) => match memchr::memchr(b'\n', window) {
                    Some(at) => Some(at + 1),
                    None if self.exhausted && !window.is_empty() => Some(window.len()),
                    None => None,
                },
                Parser::Binary(parser) => Some(parser.bytes(window)).filter(|&size| size <= window.len()),
            };
            if let Some(size) = size {
                let range = (self.start, self.start + size);
                self.start += size;
                self.record += 1;
                return Ok(Some(range));
            }
            if self.exhausted {
                if window.is_empty() {
                    return Ok(None);
                }
                let what = format!("the last record is cut short: only {} bytes are left", window.len());
                self.record += 1;
                self.start = self.end;
                self.malformed(Malformed(what.into()))?;
                return Ok(None);
            }
            self.refill()?;
        }
    }

    #[cold]
    fn refill(&mut self) -> Result<(), WorkloadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            return Err(WorkloadError {
                origin: self.name.clone(),
                line: self.record + 1,
                what: format!("no line end within {} KiB", BUFFER_BYTES >> 10),
                fix: self
                    .advice()
                    .unwrap_or_else(|| "this is not a text trace; name its format with --format".to_owned()),
            });
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(count) => {
                self.end += count;
                self.exhausted = count == 0;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(stream_error(&self.name, self.record + 1, &self.input, &error)),
        }
    }

    /// What to do about a format that was asked for and of which nothing could be read.
    fn advice(&self) -> Option<String> {
        let other = self.looks_like.filter(|_| self.asked && self.found == 0)?.name;
        Some(format!("this looks like {other}: leave --format out or say --format {other}"))
    }

    #[cold]
    fn malformed(&mut self, why: Malformed) -> Result<(), WorkloadError> {
        let Malformed(what) = why;
        if self.on_error == OnError::Stop {
            let what = format!("no valid {} record: {what}", self.format.name);
            let fix = self
                .advice()
                .unwrap_or_else(|| "mend the record, or skip such records with --on-error skip".to_owned());
            return Err(WorkloadError { origin: self.name.clone(), line: self.record, what, fix });
        }
        self.intake.skipped += 1;
        if self.intake.first_skipped.is_none() {
            self.intake.first_skipped = Some((self.record, what.into_owned()));
        }
        Ok(())
    }

    /// So many bytes held no request.
    fn skip(&mut self, bytes: usize) -> Result<(), WorkloadError> {
        self.barren += bytes as u64;
        if self.barren <= BARREN_BYTES {
            return Ok(());
        }
        Err(WorkloadError {
            origin: self.name.clone(),
            line: self.record,
            what: format!("{} MiB in a row hold no request", BARREN_BYTES >> 20),
            fix: self.advice().unwrap_or_else(|| "check how it was made; cut out what is no trace".to_owned()),
        })
    }

    /// Reads records until the batch has `target` requests or the trace ends.
    fn read(&mut self, batch: &mut Vec<Request>, target: usize) -> Result<(), WorkloadError> {
        while batch.len() < target && !self.finished {
            let Some((start, end)) = self.next_record()? else {
                return self.finish(batch, target);
            };
            let bytes = &self.buffer[start..end];
            let parsed = match &mut self.parser {
                Parser::Text(parser) => {
                    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    if line.iter().all(u8::is_ascii_whitespace) {
                        Ok(Parsed::Ignored)
                    } else {
                        parser.line(line, &mut self.volumes)
                    }
                }
                Parser::Binary(parser) => parser.record(bytes, &mut self.volumes),
            };
            let (record, flush_first) = match parsed {
                Ok(Parsed::Request(record)) => (record, false),
                Ok(Parsed::FlushFirst(record)) => (record, true),
                Ok(Parsed::Ignored) => {
                    self.intake.ignored += 1;
                    self.skip(end - start)?;
                    continue;
                }
                Err(why) => {
                    self.malformed(why)?;
                    self.skip(end - start)?;
                    continue;
                }
            };
            if self.exhausted {
                self.intake.unended = matches!(self.parser, Parser::Text(_)) && self.buffer[end - 1] != b'\n';
            }
            self.found += 1;
            self.barren = 0;
            let time_ns = record.time_ns;
            let pending = Pending { record, flush_first };
            if let Some(arrival_ns) = self.clock.follows(time_ns) {
                // The common case: in time order, no leap, room in the batch (nothing is ready while there is).
                match flush_first {
                    false => batch.push(record.arriving(arrival_ns)),
                    true => self.deliver(arrival_ns, pending, batch, target),
                }
                continue;
            }
            let [held, now] = self.clock.tick(time_ns, pending, &mut self.intake);
            for (arrival_ns, pending) in [held, now].into_iter().flatten() {
                self.deliver(arrival_ns, pending, batch, target);
            }
        }
        Ok(())
    }

    #[inline]
    fn deliver(&mut self, arrival_ns: u64, pending: Pending, batch: &mut Vec<Request>, target: usize) {
        let Pending { record, flush_first } = pending;
        let request = record.arriving(arrival_ns);
        let flush = Request { offset: 0, bytes: 0, operation: Operation::Flush, ..request };
        for request in flush_first.then_some(flush).into_iter().chain([request]) {
            if batch.len() < target && self.ready.is_empty() {
                batch.push(request);
            } else {
                self.ready.push_back(request);
            }
        }
    }

    fn finish(&mut self, batch: &mut Vec<Request>, target: usize) -> Result<(), WorkloadError> {
        if let Some((arrival_ns, pending)) = self.clock.end(&mut self.intake) {
            self.deliver(arrival_ns, pending, batch, target);
        }
        let fault =
            |what: String, fix: &str| WorkloadError { origin: self.name.clone(), line: 0, what, fix: fix.to_owned() };
        if self.found == 0 {
            return Err(match &self.intake.first_skipped {
                Some((line, why)) => fault(
                    format!(
                        "all {} {} records are malformed; record {line}: {why}",
                        self.intake.skipped, self.format.name
                    ),
                    &self
                        .advice()
                        .unwrap_or_else(|| format!("name the right format with --format, one of {}", names())),
                ),
                None => fault(format!("none of the {} records is a request", self.record), "check what was traced"),
            });
        }
        self.intake.sha256 = Some(self.input.sha256().map_err(|error| fault(format!("cannot be read: {error}"), ""))?);
        self.finished = true;
        Ok(())
    }
}

impl Source for TraceFile {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let before = batch.len();
        let limit = limit.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let ready = self.ready.len().min(limit);
        batch.extend(self.ready.drain(..ready));
        let result = self.read(batch, before.saturating_add(limit));
        let yielded = (batch.len() - before) as u64;
        self.left -= yielded;
        self.intake.requests += yielded;
        if self.intake.volumes.len() < self.volumes.names().len() {
            self.intake.volumes.extend_from_slice(&self.volumes.names()[self.intake.volumes.len()..]);
        }
        self.failure = result.clone().err();
        result
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        match &self.parser {
            Parser::Text(parser) => parser.timed(),
            Parser::Binary(_) => true,
        }
    }
}

#[derive(Clone, Copy)]
struct Pending {
    record: Record,
    flush_first: bool,
}

/// Fills the buffer with at least [`HEAD_BYTES`], or all there is: how much, and whether it is all.
fn read_head(input: &mut Input, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    let (mut end, mut exhausted) = (0, false);
    while end < HEAD_BYTES && !exhausted {
        match input.read(&mut buffer[end..]) {
            Ok(count) => (end, exhausted) = (end + count, count == 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((end, exhausted))
}

fn stream_error(name: &str, line: u64, input: &Input, error: &io::Error) -> WorkloadError {
    let (what, fix) = match input.compression() {
        None => (format!("cannot be read: {error}"), ""),
        Some(kind) if error.kind() == io::ErrorKind::UnexpectedEof => {
            (format!("the {kind} stream is cut short"), "copy or download the file again")
        }
        Some(kind) => (format!("the {kind} stream is damaged: {error}"), "copy or download the file again"),
    };
    WorkloadError { origin: name.to_owned(), line, what, fix: fix.to_owned() }
}
