//! A TCP proxy that cuts: it stands before a server, passes on what is said, and on demand cuts a
//! connection before a request, after it, or in the middle of the reply.
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

#[derive(Debug, Default)]
struct Plan {
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
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Cut {
    address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    healed: watch::Sender<u64>,
    carrying: AbortHandle,
}

impl Cut {
    /// A proxy before this server, on a port of its own.
    pub(crate) async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let healed = watch::Sender::new(0);
        let (shared, seen) = (Arc::clone(&plan), healed.subscribe());
        let carrying = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    continue;
                };
                while connections.try_join_next().is_some() {}
                let (plan, healed) = (Arc::clone(&shared), seen.clone());
                // A connection that fails is one that ends.
                connections.spawn(async move { drop(carry(client, server, plan, healed).await) });
            }
        });
        Self {
            address,
            plan,
            healed,
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

async fn carry(
    mut client: TcpStream,
    server: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    mut healed: watch::Receiver<u64>,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asked, mut replied) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut fault = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                if fault.is_none() {
                    fault = plan.lock().unwrap().take();
                    healed.borrow_and_update(); // what was healed before does not count
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
                match fault {
                    None => client.write_all(&replied[..length]).await?,
                    Some(Fault::BeforeRequest | Fault::AfterRequest) => return Ok(()),
                    Some(Fault::MidReply(most)) => {
                        return client.write_all(&replied[..length.min(most)]).await;
                    }
                    Some(Fault::Silence) => {
                        // Its sender is gone when the proxy is.
                        drop(healed.changed().await);
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
    serving.abort();
}
