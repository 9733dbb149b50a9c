//! `weir serve block`: a client written here, public clients where they are installed, and clients that misbehave.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::shared::{document, told, weir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SIZE: u64 = 64 << 20;

/// A server in a folder of its own; it is ended when it is dropped.
struct Server {
    home: tempfile::TempDir,
    child: Option<Child>,
}

impl Server {
    fn new(medium: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(weir(home.path()).get_program());
        command.current_dir(home.path()).args(["serve", "block", "--json", "--medium", medium]);
        command.args(["--size", "64MiB", "--socket", "s"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let server = Self { home, child: Some(child) };
        let deadline = Instant::now() + Duration::from_secs(120);
        while UnixStream::connect(server.socket()).is_err() {
            assert!(Instant::now() < deadline, "the server does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("s")
    }

    /// Ends it; what it printed.
    fn end(mut self) -> Value {
        let child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        assert!(!self.socket().exists(), "the socket is removed");
        document(&output)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client with structured replies or without.
struct Client {
    stream: UnixStream,
    structured: bool,
    flags: u16,
}

/// An error's number and message.
type Refused = (u32, String);

impl Client {
    fn new(socket: &Path, structured: bool) -> Self {
        let mut client = Self { stream: begun(socket), structured, flags: 0 };
        if structured {
            client.option(8, &[]);
            assert_eq!(client.option_reply(), (8, 1, Vec::new()));
        }
        client.option(7, &[0, 0, 0, 0, 0, 0]);
        loop {
            let (_, kind, data) = client.option_reply();
            match kind {
                1 => return client,
                3 if data[..2] == [0, 0] => {
                    assert_eq!(u64::from_be_bytes(data[2..10].try_into().unwrap()), SIZE);
                    client.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                other => panic!("reply {other:#x}"),
            }
        }
    }

    fn option(&mut self, kind: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes).unwrap();
    }

    fn option_reply(&mut self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.number(8), 0x0003_e889_0455_65a9);
        let (kind, reply, length) = (self.number(4) as u32, self.number(4) as u32, self.number(4));
        (kind, reply, self.bytes(length))
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes as u64).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; count as usize];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn send(&mut self, flags: u16, kind: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next reply: cookie, and data or an error. `length` is what a read asked for.
    fn reply(&mut self, length: u32) -> (u64, Result<Vec<u8>, Refused>) {
        if !self.structured {
            assert_eq!(self.number(4), 0x6744_6698);
            let (error, cookie) = (self.number(4) as u32, self.number(8));
            let result =
                if error == 0 { Ok(self.bytes(u64::from(length))) } else { Err((error, String::new())) };
            return (cookie, result);
        }
        assert_eq!(self.number(4), 0x668e_33ef);
        assert_eq!(self.number(2), 1, "one chunk");
        let (kind, cookie, length) = (self.number(2), self.number(8), self.number(4));
        let body = self.bytes(length);
        let result = match kind {
            0 => Ok(body),
            1 => Ok(body[8..].to_vec()),
            _ => {
                let message = String::from_utf8(body[6..].to_vec()).unwrap();
                Err((u32::from_be_bytes(body[..4].try_into().unwrap()), message))
            }
        };
        (cookie, result)
    }

    fn call(
        &mut self,
        flags: u16,
        kind: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        self.send(flags, kind, 7, offset, length, data);
        let (cookie, result) = self.reply(if kind == 0 { length } else { 0 });
        assert_eq!(cookie, 7);
        result
    }
}

/// A connection after the greeting.
fn begun(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut hello = [0; 18];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(hello[17] & 3, 3);
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
    stream
}

/// Whether the server has closed the connection.
fn closed(mut stream: &UnixStream) -> bool {
    let mut rest = Vec::new();
    // Bytes that the server has not read when it closes reset the connection.
    stream
        .read_to_end(&mut rest)
        .map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
}

#[test]
fn what_a_client_writes_it_reads_and_the_server_says_how_late_it_was() {
    for medium in ["ssd", "ssd,allocation=on,capacitor=no,early_release=no", "ram", "hinfs"] {
        let server = Server::new(medium);
        for structured in [false, true] {
            let mut client = Client::new(&server.socket(), structured);
            assert_eq!(client.flags & 0b1101, 0b1101, "{medium}: flags, flush, FUA");
            let data: Vec<u8> = (0..600_000).map(|i| (i % 251) as u8).take(599_040).collect();
            let length = data.len() as u32;
            client.call(0, 1, 4096, length, &data).unwrap();
            client.call(1, 1, 0, 512, &[9; 512]).unwrap();
            client.call(0, 3, 0, 0, &[]).unwrap();
            assert!(client.call(0, 0, 4096, length, &[]).unwrap() == data, "{medium}");
            client.call(0, 6, 8192, 4096, &[]).unwrap();
            assert_eq!(client.call(0, 0, 8192, 4096, &[]).unwrap(), [0; 4096], "{medium}");
            client.call(2, 6, 12288, 512, &[]).unwrap();
            client.call(0, 4, 4096, 65536, &[]).unwrap();
            assert_eq!(client.call(0, 0, 4096, 65536, &[]).unwrap(), vec![0; 65536], "{medium}");
            assert_eq!(client.call(0, 0, 0, 512, &[]).unwrap(), [9; 512], "{medium}");
            client.send(0, 2, 0, 0, 0, &[]);
            assert!(closed(&client.stream), "{medium}: a disconnect ends the connection");
        }
        let end = server.end();
        assert!(end["lateness"]["count"].as_u64().unwrap() >= 20, "{medium}: {end}");
        assert!(end["service"]["max_ns"].as_u64().unwrap() > 0 || medium == "ram", "{medium}: {end}");
    }
}

#[test]
fn many_requests_are_on_their_way_at_once() {
    let server = Server::new("ssd");
    let mut client = Client::new(&server.socket(), true);
    for page in 0..256 {
        client.call(0, 1, page * 4096, 4096, &[page as u8; 4096]).unwrap();
    }
    for page in 0..256 {
        client.send(0, 0, page, page * 4096, 4096, &[]);
    }
    let mut seen = [false; 256];
    for _ in 0..256 {
        let (cookie, data) = client.reply(4096);
        assert_eq!(data.unwrap(), [cookie as u8; 4096]);
        seen[cookie as usize] = true;
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn a_client_that_asks_for_what_cannot_be_gets_a_sentence_and_goes_on() {
    let server = Server::new("ssd");
    let mut client = Client::new(&server.socket(), true);
    let cases: [(u16, u16, u64, u32, u32, &str); 7] = [
        (0, 0, SIZE, 4096, 22, "beyond the device"),
        (0, 0, 100, 512, 22, "not whole blocks"),
        (0, 0, 0, 0, 22, "not whole blocks"),
        (0, 99, 0, 512, 22, "no command 99"),
        (64, 0, 0, 512, 22, "no flags"),
        (0, 0, 0, 33 << 20, 22, "a read of"),
        (0, 4, u64::MAX - 511, 1024, 28, "not whole blocks"),
    ];
    for (flags, kind, offset, length, number, words) in cases {
        let (error, said) = client.call(flags, kind, offset, length, &[]).unwrap_err();
        let fits = error == number || words == "not whole blocks" && error == 22;
        assert!(fits && (said.contains(words) || said.contains("beyond")), "{error}: {said}");
    }
    let full = client.call(0, 1, SIZE - 512, 1024, &[1; 1024]).unwrap_err();
    assert_eq!(full.0, 28, "{}", full.1);
    client.call(0, 1, 0, 512, &[5; 512]).unwrap();
    assert_eq!(client.call(0, 0, 0, 512, &[]).unwrap(), [5; 512]);
}

#[test]
fn a_client_that_breaks_the_protocol_is_disconnected_and_others_go_on() {
    let server = Server::new("ssd");
    let mut good = Client::new(&server.socket(), false);
    good.call(0, 1, 0, 512, &[3; 512]).unwrap();

    let mut rubbish = Client::new(&server.socket(), false);
    rubbish.stream.write_all(&[0xff; 28]).unwrap();
    assert!(closed(&rubbish.stream));

    let mut long = Client::new(&server.socket(), false);
    long.send(0, 1, 1, 0, u32::MAX, &[]);
    assert!(closed(&long.stream));

    let mut option = begun(&server.socket());
    option.write_all(&[7; 16]).unwrap();
    assert!(closed(&option));

    let mut name = begun(&server.socket());
    name.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x04none").unwrap();
    assert!(closed(&name));

    // One vanishes in the middle of a write, one with reads on their way.
    let mut vanishing = Client::new(&server.socket(), false);
    vanishing.send(0, 1, 1, 0, 4096, &[1; 100]);
    drop(vanishing);
    let mut reading = Client::new(&server.socket(), false);
    (0..64).for_each(|cookie| reading.send(0, 0, cookie, 0, 4096, &[]));
    drop(reading);

    assert_eq!(good.call(0, 0, 0, 512, &[]).unwrap(), [3; 512]);
    server.end();
}

#[test]
fn options_are_answered_as_the_protocol_says() {
    let server = Server::new("ram");
    let mut client = Client { stream: begun(&server.socket()), structured: false, flags: 0 };
    client.option(3, &[]);
    let (_, kind, data) = client.option_reply();
    assert_eq!((kind, &data[4..8]), (2, &b"weir"[..]));
    assert_eq!(client.option_reply().1, 1);
    client.option(5, &[]);
    assert_eq!(client.option_reply().1, (1 << 31) + 1, "no TLS");
    client.option(6, b"\0\0\0\x03abc\0\0");
    assert_eq!(client.option_reply().1, (1 << 31) + 6, "no such export");
    client.option(7, b"\0\0\xff\xffabc");
    assert_eq!(client.option_reply().1, (1 << 31) + 3, "malformed");
    client.option(1000, &vec![0; 20_000]);
    assert_eq!(client.option_reply().1, (1 << 31) + 9, "too long");
    client.option(2, &[]);
    assert_eq!(client.option_reply().1, 1);
    assert!(closed(&client.stream));
}

#[test]
fn a_second_server_does_not_take_a_socket_that_is_served() {
    let server = Server::new("ram");
    let output =
        weir(server.home.path()).args(["serve", "block", "--medium", "ram", "--socket", "s"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    Client::new(&server.socket(), false).call(0, 3, 0, 0, &[]).unwrap();
}

/// Runs a public client; says aloud when it is not installed. Its output, if it ran.
fn public(program: &str, arguments: &[&str]) -> Option<String> {
    // fio leaves the state of its verification where it runs.
    let scratch = tempfile::tempdir().expect("a folder");
    let output = match Command::new(program).args(arguments).current_dir(scratch.path()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!(
                "SKIPPED: {program} is not here ({error}); on Debian: apt-get install libnbd-bin qemu-utils fio"
            );
            return None;
        }
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success() || said.contains("engine nbd not"), "{program}: {said}");
    Some(said)
}

#[test]
fn public_clients_use_it() {
    let server = Server::new("ssd");
    let uri = format!("nbd+unix:///weir?socket={}", server.socket().display());
    if let Some(said) = public("nbdinfo", &[&uri]) {
        assert!(said.contains("67108864") && said.contains("can_trim: true"), "{said}");
    }
    if let Some(said) = public("qemu-img", &["info", &uri]) {
        assert!(said.contains("64 MiB"), "{said}");
    }
    if let Some(said) =
        public("qemu-io", &["-f", "raw", "-c", "write -P 5 0 1M", "-c", "read -P 5 0 1M", &uri])
    {
        assert!(said.contains("read 1048576/1048576") && !said.contains("fail"), "{said}");
    }
    let uri = format!("--uri={uri}");
    let job = ["--name=v", "--ioengine=nbd", &uri, "--rw=randwrite", "--bs=4k", "--size=8M"];
    let verify = ["--verify=crc32c", "--iodepth=16"];
    if let Some(said) = public("fio", &[&job[..], &verify[..]].concat()) {
        if said.contains("engine nbd not") {
            eprintln!("SKIPPED: this fio has no nbd engine");
        } else {
            assert!(said.contains("err= 0"), "{said}");
        }
    }
}
