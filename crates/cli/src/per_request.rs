//! `--per-request FILE`: one CSV line for each request, streamed, compressed if the name ends in `.zst`. Where several
//! streams share the device, each line begins with the number of its own, as the table has it.

use crate::error::CliError;
use crate::output::Sink;
use flash::Op;
use sim::report::RequestRecord;
use sim::workload::Operation;
use std::io::Write;
use std::path::Path;

/// Bytes gathered before they are written (and compressed) at once.
const BATCH: usize = 1 << 16;

/// Writes requests as they are served. Dropped without [`PerRequest::finish`], it leaves no file.
pub struct PerRequest {
    sink: Sink,
    batch: Vec<u8>,
    has_flows: bool,
}

impl PerRequest {
    /// Begins the file with its header line; `has_flows` if it is to tell streams apart.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, has_flows: bool) -> Result<PerRequest, CliError> {
        let sink = Sink::create(path)?;
        let mut batch = Vec::with_capacity(BATCH + 512);
        batch.extend_from_slice(if has_flows { b"flow,".as_slice() } else { b"" });
        batch.extend_from_slice(b"arrival_us,operation,offset,bytes,queue_us,service_us,response_us");
        for op in Op::ALL {
            batch.push(b',');
            batch.extend_from_slice(op.name().as_bytes());
        }
        batch.push(b'\n');
        Ok(PerRequest { sink, batch, has_flows })
    }

    /// Adds one request.
    ///
    /// # Errors
    /// The disk is full or failing.
    pub fn record(&mut self, request: &RequestRecord) -> Result<(), CliError> {
        let line = &mut self.batch;
        if self.has_flows {
            push_number(line, u64::from(request.flow) + 1);
            line.push(b',');
        }
        push_us(line, request.arrival_ns);
        line.extend_from_slice(match request.operation {
            Operation::Read => b",read,".as_slice(),
            Operation::Write => b",write,",
            Operation::Trim => b",trim,",
            Operation::Flush => b",flush,",
        });
        push_number(line, request.offset);
        line.push(b',');
        push_number(line, request.bytes);
        for ns in [request.queue_ns, request.service_ns, request.response_ns] {
            line.push(b',');
            push_us(line, ns);
        }
        for count in request.commands {
            line.push(b',');
            push_number(line, u64::from(count));
        }
        line.push(b'\n');
        if line.len() >= BATCH {
            self.write()?;
        }
        Ok(())
    }

    /// Completes the file and puts it in its place.
    ///
    /// # Errors
    /// The disk is full or failing; no file is left.
    pub fn finish(mut self) -> Result<(), CliError> {
        self.write()?;
        self.sink.commit()
    }

    fn write(&mut self) -> Result<(), CliError> {
        let outcome = self.sink.write_all(&self.batch);
        self.batch.clear();
        outcome.map_err(|cause| self.sink.error(&cause))
    }
}

/// Nanoseconds as microseconds, with three decimals unless they are whole: nothing is rounded.
fn push_us(line: &mut Vec<u8>, ns: u64) {
    push_number(line, ns / 1000);
    let digit = |divisor: u64| b'0' + (ns / divisor % 10) as u8;
    if !ns.is_multiple_of(1000) {
        line.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    }
}

fn push_number(line: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    fn request(index: u64) -> RequestRecord {
        RequestRecord {
            arrival_ns: 1_000_001 * index,
            flow: index as u32 % 2,
            operation: [Operation::Read, Operation::Write, Operation::Trim, Operation::Flush][index as usize % 4],
            offset: 4096 * index,
            bytes: 512,
            queue_ns: 1_234,
            service_ns: 25_000,
            response_ns: 26_234,
            commands: [1, 0, 2, 0, u32::MAX],
        }
    }

    fn write(path: &Path, count: u64) {
        let mut file = PerRequest::create(path, false).unwrap();
        (0..count).for_each(|index| file.record(&request(index)).unwrap());
        file.finish().unwrap();
    }

    #[test]
    fn lines_are_exact() {
        let directory = Directory::new();
        let path = directory.join("requests.csv");
        write(&path, 2);
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            "arrival_us,operation,offset,bytes,queue_us,service_us,response_us,reads,oob_reads,programs,\
             partial_programs,erases\n\
             0,read,0,512,1.234,25,26.234,1,0,2,0,4294967295\n\
             1000.001,write,4096,512,1.234,25,26.234,1,0,2,0,4294967295\n"
        );
        let path = directory.join("flows.csv");
        let mut file = PerRequest::create(&path, true).unwrap();
        (0..2).for_each(|index| file.record(&request(index)).unwrap());
        file.finish().unwrap();
        let lines = std::fs::read_to_string(path).unwrap();
        let firsts: Vec<_> = lines.lines().map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(firsts, ["flow", "1", "2"]);
        let mut largest = Vec::new();
        push_us(&mut largest, u64::MAX);
        assert_eq!(largest, b"18446744073709551.615");
    }

    #[test]
    fn compressed_holds_the_same() {
        let directory = Directory::new();
        let (plain, compressed) = (directory.join("requests.csv"), directory.join("requests.csv.zst"));
        write(&plain, 20_000);
        write(&compressed, 20_000);
        let plain = std::fs::read(plain).unwrap();
        assert_eq!(zstd::decode_all(std::fs::File::open(&compressed).unwrap()).unwrap(), plain);
        assert!(std::fs::metadata(compressed).unwrap().len() < plain.len() as u64 / 4);
    }

    #[test]
    fn unfinished_leaves_nothing() {
        let directory = Directory::new();
        for name in ["requests.csv", "requests.csv.zst"] {
            let mut file = PerRequest::create(&directory.join(name), false).unwrap();
            (0..20_000).for_each(|index| file.record(&request(index)).unwrap());
            drop(file);
        }
        assert!(directory.names().is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported() {
        let mut file = PerRequest::create(Path::new("/dev/full"), false).unwrap();
        let outcome = (0..100_000).try_for_each(|index| file.record(&request(index))).and_then(|()| file.finish());
        assert_eq!(outcome.unwrap_err().to_string(), "cannot write /dev/full: no space left on the device");
    }
}
