//! A client of a mail server that speaks SMTP (RFC 5321) on its standard input and output: it waits for each reply.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::process::Group;

/// A connection.
pub(super) struct Session {
    server: Child,
    /// None once it has taken leave.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Session {
    /// Starts the server in a group, and greets it.
    pub(super) fn open(command: &mut Command, group: &Group) -> Result<Self, String> {
        group.holds(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().map_err(|error| format!("the server does not start: {error}"))?;
        let (to, from) = (server.stdin.take(), server.stdout.take().ok_or("the server has no output")?);
        let mut session = Self { server, to, from: BufReader::new(from) };
        session.reply("the beginning", "220")?;
        session.ask("HELO client", "250")?;
        Ok(session)
    }

    /// Sends a message of a line, as FxMark's clients do; returns when the server has taken responsibility for it.
    pub(super) fn send(&mut self, recipient: &str) -> Result<(), String> {
        self.ask("MAIL FROM:<sender@mail.example>", "250")?;
        self.ask(&format!("RCPT TO:<{recipient}@mail.example>"), "250")?;
        self.ask("DATA", "354")?;
        self.ask(&format!("From: sender\r\nTo: {recipient}\r\n\r\nthe body\r\n."), "250")
    }

    /// Takes leave, and waits for the server's end.
    pub(super) fn close(mut self) -> Result<(), String> {
        self.ask("QUIT", "221")?;
        self.to = None;
        let status = self.server.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("a connection has ended with {status}")) }
    }

    fn ask(&mut self, line: &str, expected: &str) -> Result<(), String> {
        let to = self.to.as_mut().ok_or("the connection is closed")?;
        let sent = to.write_all(format!("{line}\r\n").as_bytes());
        // A server that has gone may have said why.
        self.reply(line, expected)?;
        sent.map_err(|error| format!("SMTP: {}: {error}", first(line)))
    }

    /// A reply has a line or more; of each but the last a hyphen follows the code.
    fn reply(&mut self, to: &str, expected: &str) -> Result<(), String> {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.from.read_line(&mut line);
            if count.map_err(|error| format!("SMTP: {}: {error}", first(to)))? == 0 {
                return Err(format!("SMTP: {}: the server has closed the connection", first(to)));
            }
            match line.as_bytes().get(3) {
                Some(b'-') => {}
                _ if line.starts_with(expected) => return Ok(()),
                _ => return Err(format!("SMTP: {}: the server replies: {}", first(to), line.trim())),
            }
        }
    }
}

impl Drop for Session {
    /// A server that was not taken leave of has failed.
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn first(lines: &str) -> &str {
    lines.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(script: &str) -> (Command, Group) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        (command, Group::new().unwrap())
    }

    const SERVER: &str = "echo 220-mail; echo 220 ready; read l; echo 250 hello; read l; echo 250 from; read l; echo 250 to
        read l; echo 354 go; while read l; do case $l in .*) break;; esac; done; echo 250 taken; read l; echo 221 bye";

    #[test]
    fn a_message_is_sent_and_a_refusal_is_told_with_its_reply() {
        let (mut command, group) = server(SERVER);
        let mut session = Session::open(&mut command, &group).unwrap();
        session.send("b").unwrap();
        session.close().unwrap();
        let (mut command, group) = server(&SERVER.replace("250 to", "452 no room"));
        let told = Session::open(&mut command, &group).unwrap().send("b").unwrap_err();
        assert_eq!(told, "SMTP: RCPT TO:<b@mail.example>: the server replies: 452 no room");
        let (mut command, group) = server("exit 1");
        let told = Session::open(&mut command, &group).map(|_| ()).unwrap_err();
        assert_eq!(told, "SMTP: the beginning: the server has closed the connection");
    }
}
