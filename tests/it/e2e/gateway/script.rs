//! An upstream that does on each connection what a test says, byte by byte.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::authority::Certified;

/// Bytes that go both ways.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// One end of a connection, and what of it has been read and not been used.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    read: Vec<u8>,
}

/// An upstream, and how often somebody has connected.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) address: String,
    connections: Arc<AtomicUsize>,
}

impl Script {
    /// Plays this on every connection; the first is 1.
    pub(crate) async fn play<F>(scene: impl Fn(usize, Wire) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let scene = Arc::new(scene);
        Self::listen(move |number, stream| {
            let scene = Arc::clone(&scene);
            async move { scene(number, Wire::new(stream)).await }
        })
        .await
    }

    /// Plays it where hands were shaken, with this certificate and for HTTP/1.1.
    pub(crate) async fn play_by_https<F>(
        certified: &Certified,
        scene: impl Fn(usize, Wire) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (acceptor, scene) = (certified.acceptor(), Arc::new(scene));
        Self::listen(move |number, stream| {
            let (acceptor, scene) = (acceptor.clone(), Arc::clone(&scene));
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
                    scene(number, Wire::new(stream)).await;
                }
            }
        })
        .await
    }

    async fn listen<F>(scene: impl Fn(usize, TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(scene(number, stream));
            }
        });
        Self {
            address,
            connections,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Wire {
    pub(crate) fn new(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            read: Vec::new(),
        }
    }

    /// Reads to the end of this text and returns all up to there; `None` where the other end closes
    /// before.
    pub(crate) async fn until(&mut self, end: &str) -> Option<String> {
        loop {
            let found = self
                .read
                .windows(end.len())
                .position(|at| at == end.as_bytes());
            if let Some(at) = found {
                let text = self.read.drain(..at + end.len()).collect();
                return Some(String::from_utf8(text).unwrap().to_lowercase());
            }
            if self.stream.read_buf(&mut self.read).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The head of the next message.
    pub(crate) async fn head(&mut self) -> Option<String> {
        self.until("\r\n\r\n").await
    }

    /// Counts what comes until the other end closes, or until it was so many bytes.
    pub(crate) async fn count(&mut self, bytes: usize) -> usize {
        let mut counted = std::mem::take(&mut self.read).len();
        let mut buffer = vec![0; 65_536];
        while counted < bytes {
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(more) => counted += more,
            }
        }
        counted
    }

    /// Reads so many bytes, which all are this one. Returns how many there were.
    pub(crate) async fn exactly(&mut self, bytes: usize, each: u8) -> usize {
        let mut counted = 0;
        while counted < bytes {
            if self.read.is_empty() && self.stream.read_buf(&mut self.read).await.unwrap_or(0) == 0
            {
                break;
            }
            let some = self.read.len().min(bytes - counted);
            assert!(self.read.drain(..some).all(|byte| byte == each));
            counted += some;
        }
        counted
    }

    /// Whether there is still somebody who takes this.
    pub(crate) async fn try_say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Whoever is gone does not mind.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()).await);
    }

    /// Writes this many bytes, or as many as somebody takes without a pause of this length.
    pub(crate) async fn pour(&mut self, bytes: usize, pause: std::time::Duration) -> usize {
        let some = vec![b'x'; 65_536];
        let mut poured = 0;
        while poured < bytes {
            let next = some.len().min(bytes - poured);
            match tokio::time::timeout(pause, self.stream.write(&some[..next])).await {
                Ok(Ok(more)) => poured += more,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        poured
    }
}
