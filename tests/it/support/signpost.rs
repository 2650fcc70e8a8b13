//! One address that leads to a server, and from some moment on to another: what a service name does
//! at a failover. Whoever is on the way when it turns, or when it is cut, loses the connection.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The address.
#[derive(Debug)]
pub(crate) struct Signpost {
    pub(crate) address: SocketAddr,
    to: watch::Sender<Option<SocketAddr>>,
    task: JoinHandle<()>,
}

impl Signpost {
    /// Leads there.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (to, way) = watch::channel(Some(server));
        Self {
            address: listener.local_addr().unwrap(),
            to,
            task: tokio::spawn(lead(listener, way)),
        }
    }

    /// Leads there from now on.
    pub(crate) fn turn(&self, server: SocketAddr) {
        self.to.send_replace(Some(server));
    }

    /// Leads nowhere from now on.
    pub(crate) fn cut(&self) {
        self.to.send_replace(None);
    }
}

impl Drop for Signpost {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn lead(listener: TcpListener, way: watch::Receiver<Option<SocketAddr>>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let mut way = way.clone();
        tokio::spawn(async move {
            let Some(server) = *way.borrow_and_update() else {
                return;
            };
            let talk = async {
                let mut far = TcpStream::connect(server).await?;
                near.set_nodelay(true)?;
                far.set_nodelay(true)?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            };
            tokio::select! {
                _ended = talk => {}
                _turned = way.changed() => {}
            }
        });
    }
}
