//! The Redis protocol, as little of it as a bench needs: commands are written as they are, replies are
//! counted, and only those that are asked for are read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

/// How long a reply may take.
const REPLY_MAX: Duration = Duration::from_secs(30);

/// A reply, as far as benches look into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Number(i64),
    Text(Vec<u8>),
    Many(Vec<Reply>),
    Nothing,
}

impl Reply {
    pub(super) fn number(&self) -> anyhow::Result<i64> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Text(text) => Ok(std::str::from_utf8(text)?.trim().parse()?),
            Self::Many(_) | Self::Nothing => bail!("no number: {self:?}"),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Many(_) | Self::Nothing => String::new(),
        }
    }
}

/// One connection. Every call waits for its reply.
#[derive(Debug)]
pub(super) struct Connection {
    out: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let out = TcpStream::connect(address).context("connecting to the server")?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(REPLY_MAX))?;
        let replies = BufReader::with_capacity(1 << 18, out.try_clone()?);
        Ok(Self { out, replies })
    }

    /// One command and its reply.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> anyhow::Result<Reply> {
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        self.send(&bytes, 1)?
            .pop()
            .context("a reply to one command")
    }

    /// The same for words that are text.
    pub(super) fn say(&mut self, line: &str) -> anyhow::Result<Reply> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }

    /// Commands that are written already, at once; their replies.
    pub(super) fn send(&mut self, commands: &[u8], count: usize) -> anyhow::Result<Vec<Reply>> {
        self.out.write_all(commands)?;
        (0..count).map(|_| self.read()).collect()
    }

    fn read(&mut self) -> anyhow::Result<Reply> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).context("an empty reply")?;
        match kind {
            "+" => Ok(Reply::Text(rest.as_bytes().to_vec())),
            ":" => Ok(Reply::Number(rest.parse()?)),
            "$" => {
                let Ok(length) = rest.parse::<usize>() else {
                    return Ok(Reply::Nothing);
                };
                let mut bytes = vec![0; length + 2];
                self.replies.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Text(bytes))
            }
            "*" => {
                let count: usize = rest.parse()?;
                let many = (0..count).map(|_| self.read());
                Ok(Reply::Many(many.collect::<anyhow::Result<_>>()?))
            }
            "-" => bail!("the server says: {rest}"),
            _ => bail!("not a reply: {line}"),
        }
    }
}

/// Appends a command.
pub(super) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_and_replies_read() {
        let mut written = Vec::new();
        write_command(&mut written, &[b"GET", b"a"]);
        assert_eq!(written, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let answers = b"*3\r\n:7\r\n$2\r\nok\r\n$-1\r\n+fine\r\n-ERR no\r\n";
            stream.write_all(answers).unwrap();
            // Listens to the end: a connection that is shut early fails the next command.
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        });
        let mut connection = Connection::open(address).unwrap();
        let many = connection.ask(&[b"a"]).unwrap();
        let text = Reply::Text(b"ok".to_vec());
        assert_eq!(
            many,
            Reply::Many(vec![Reply::Number(7), text, Reply::Nothing])
        );
        assert_eq!(connection.say("b").unwrap().text(), "fine");
        assert!(
            connection
                .say("c")
                .unwrap_err()
                .to_string()
                .contains("ERR no")
        );
        drop(connection);
        serving.join().unwrap();
    }
}
