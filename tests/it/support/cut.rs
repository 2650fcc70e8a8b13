//! A TCP proxy that cuts: it stands before a server, passes on what is said, and on demand cuts a
//! connection before a request, after it, or in the middle of the reply. It can also stand still: nothing
//! passes in either direction and nothing ends, as when a network is parted.
//!
//! A request here is whatever arrives from the client at once. The most useful cut is the one after
//! the request: the server has done what it was asked, and nobody hears of it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// Bytes carried at once.
const CHUNK: usize = 64 * 1024;

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never arrives, and the connection ends.
    BeforeRequest,
    /// It arrives; when the reply begins, the connection ends.
    AfterRequest,
    /// It arrives; so many bytes of the reply come back, then the connection ends.
    MidReply(usize),
    /// It arrives; nothing comes back and the connection stays, until the proxy is healed.
    Silence,
}

/// Which connections stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Still {
    None,
    /// Those on which the marked words were ever said, from those words on.
    Marked,
    All,
}

impl Still {
    fn holds(self, is_marked: bool) -> bool {
        match self {
            Self::None => false,
            Self::Marked => is_marked,
            Self::All => true,
        }
    }
}

#[derive(Debug, Default)]
struct Plan {
    /// What marks a connection; empty: nothing does.
    mark: Vec<u8>,
    once: VecDeque<Fault>,
    always: Option<Fault>,
    done: usize,
}

impl Plan {
    fn take(&mut self) -> Option<Fault> {
        let fault = self.once.pop_front().or(self.always);
        self.done += usize::from(fault.is_some());
        fault
    }

    fn is_mark_in(&self, said: &[u8]) -> bool {
        let length = self.mark.len();
        0 < length && said.windows(length).any(|part| part == self.mark)
    }
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Cut {
    address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    healed: watch::Sender<u64>,
    still: watch::Sender<Still>,
    carrying: AbortHandle,
}

impl Cut {
    /// A proxy before this server, on a port of its own.
    pub(crate) async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let healed = watch::Sender::new(0);
        let still = watch::Sender::new(Still::None);
        let (shared, seen, stands) = (Arc::clone(&plan), healed.subscribe(), still.subscribe());
        let carrying = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    continue;
                };
                while connections.try_join_next().is_some() {}
                let told = Told {
                    plan: Arc::clone(&shared),
                    healed: seen.clone(),
                    still: stands.clone(),
                };
                // A connection that fails is one that ends.
                connections.spawn(async move { drop(carry(client, server, told).await) });
            }
        });
        Self {
            address,
            plan,
            healed,
            still,
            carrying: carrying.abort_handle(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request, on whichever connection, meets this fault.
    pub(crate) fn once(&self, fault: Fault) {
        self.plan.lock().unwrap().once.push_back(fault);
    }

    /// Every request from now on meets this fault.
    pub(crate) fn always(&self, fault: Fault) {
        self.plan.lock().unwrap().always = Some(fault);
    }

    /// From now on everything passes; connections that were kept silent end.
    pub(crate) fn heal(&self) {
        let mut plan = self.plan.lock().unwrap();
        (plan.always, plan.once) = (None, VecDeque::new());
        self.healed.send_modify(|times| *times += 1);
    }

    /// Connections on which this is said are marked.
    pub(crate) fn mark(&self, words: &str) {
        self.plan.lock().unwrap().mark = words.as_bytes().to_vec();
    }

    /// These connections stand still from now on. What was held back passes when they no longer do.
    pub(crate) fn stand(&self, still: Still) {
        self.still.send_replace(still);
    }

    /// Requests that have met a fault so far.
    pub(crate) fn done(&self) -> usize {
        self.plan.lock().unwrap().done
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.carrying.abort(); // and with it every connection
    }
}

/// What a connection is told.
struct Told {
    plan: Arc<Mutex<Plan>>,
    healed: watch::Receiver<u64>,
    still: watch::Receiver<Still>,
}

impl Told {
    /// Waits while a connection has to stand still. The sender is gone when the proxy is.
    async fn pass(&mut self, is_marked: bool) {
        drop(self.still.wait_for(|still| !still.holds(is_marked)).await);
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut told: Told) -> std::io::Result<()> {
    told.pass(false).await;
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asked, mut replied) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut fault, mut is_marked) = (None, false);
    loop {
        told.pass(is_marked).await;
        tokio::select! {
            read = client.read(&mut asked) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                is_marked = is_marked || told.plan.lock().unwrap().is_mark_in(&asked[..length]);
                told.pass(is_marked).await;
                if fault.is_none() {
                    fault = told.plan.lock().unwrap().take();
                    told.healed.borrow_and_update(); // what was healed before does not count
                }
                if fault == Some(Fault::BeforeRequest) {
                    return Ok(());
                }
                server.write_all(&asked[..length]).await?;
            }
            read = server.read(&mut replied) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                told.pass(is_marked).await;
                match fault {
                    None => client.write_all(&replied[..length]).await?,
                    Some(Fault::BeforeRequest | Fault::AfterRequest) => return Ok(()),
                    Some(Fault::MidReply(most)) => {
                        return client.write_all(&replied[..length.min(most)]).await;
                    }
                    Some(Fault::Silence) => {
                        // Its sender is gone when the proxy is.
                        drop(told.healed.changed().await);
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn it_cuts_where_it_is_told_to() {
    // A server that counts what it is asked and answers with twelve bytes.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let (count, mut counted) = watch::channel(0);
    let serving = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let count = count.clone();
            connections.spawn(async move {
                let mut bytes = [0; 64];
                while matches!(stream.read(&mut bytes).await, Ok(1..)) {
                    count.send_modify(|asked| *asked += 1);
                    stream.write_all(b"an answer, .").await.unwrap();
                }
            });
        }
    });
    let cut = Cut::before(server).await;
    let ask = async || {
        let mut stream = TcpStream::connect(cut.address()).await.unwrap();
        stream.write_all(b"?").await.unwrap();
        let mut heard = [0; 12];
        let mut length = 0;
        while length < 12 {
            match stream.read(&mut heard[length..]).await {
                Ok(0) | Err(_) => break,
                Ok(more) => length += more,
            }
        }
        length
    };
    let mut asked = 0;
    for (fault, arrives, hears) in [
        (None, 1, 12),
        (Some(Fault::BeforeRequest), 0, 0),
        (Some(Fault::AfterRequest), 1, 0),
        (Some(Fault::MidReply(5)), 1, 5),
        (None, 1, 12),
    ] {
        fault.into_iter().for_each(|fault| cut.once(fault));
        assert_eq!(ask().await, hears, "{fault:?}");
        asked += arrives;
        counted.wait_for(|count| *count == asked).await.unwrap();
    }
    cut.always(Fault::Silence);
    let (heard, ()) = tokio::join!(ask(), async {
        counted.wait_for(|count| *count == asked + 1).await.unwrap();
        cut.heal();
    });
    assert_eq!(heard, 0);
    assert_eq!(ask().await, 12);
    assert_eq!(cut.done(), 4);
    asked += 2;
    for still in [Still::All, Still::Marked] {
        cut.mark("?");
        cut.stand(still);
        let (heard, ()) = tokio::join!(ask(), async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(*counted.borrow(), asked, "it passed");
            cut.stand(Still::None);
        });
        asked += 1;
        assert_eq!((heard, *counted.borrow()), (12, asked));
    }
    serving.abort();
}
