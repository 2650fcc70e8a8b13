//! TLS of the gateway: both protocols, cookies that are for it, a certificate that is replaced while
//! fans are connected (row 35).

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rcgen::CertifiedKey;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::e2e::hostile::site::{PATIENCE, get};
use crate::support::process::Server;
use crate::support::until;

fn certificate() -> CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
}

fn write(folder: &Path, made: &CertifiedKey<rcgen::KeyPair>) {
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
}

/// What trusts these certificates only.
fn trusting(trusted: &[&CertificateDer<'static>], alpn: &[&[u8]]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add((*certificate).clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

/// Shakes hands, trusting these certificates only.
async fn connect(
    server: &Server,
    trusted: &[&CertificateDer<'static>],
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    shake_hands(server, &Arc::new(trusting(trusted, alpn))).await
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

async fn shake_hands(
    server: &Server,
    config: &Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.gateway).await?;
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(localhost(), stream).await
}

/// Whether an answer with a length is all there.
fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .split("content-length: ")
        .nth(1)
        .and_then(|tail| tail.lines().next());
    length.is_some_and(|length| length.parse() == Ok(body.len()))
}

/// Sends a request and reads its answer; the connection stays.
async fn ask(stream: &mut TlsStream<TcpStream>, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = async {
        while !is_whole(&String::from_utf8_lossy(&answer)) {
            stream.read_buf(&mut answer).await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("an answer");
    String::from_utf8(answer).unwrap()
}

async fn start(folder: &Path) -> Server {
    let toml = format!(
        "[gateway]\nhead_ms = 1000\n[gateway.tls]\ncert_file = \"{0}/cert.pem\"\nkey_file = \"{0}/key.pem\"\n",
        folder.display()
    );
    let file = folder.join("tls.toml");
    std::fs::write(&file, toml + "[upstreams.orders]\ngate = \"ticket\"\n").unwrap();
    Server::up_by(
        folder,
        &["--config", file.to_str().unwrap()],
        &[],
        Stdio::inherit(),
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fans_connect_by_tls_and_a_new_certificate_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (certificate(), certificate());
    write(folder.path(), &first);
    let server = start(folder.path()).await;
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    let h2 = connect(&server, &[first.cert.der()], both).await.unwrap();
    assert_eq!(h2.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(h2),
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let request = || {
        let request = http::Request::get("https://localhost/.well-known/jwks.json");
        request
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap()
    };
    assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
    let mut old = connect(&server, &[first.cert.der()], &[b"http/1.1"])
        .await
        .unwrap();
    assert!(
        ask(&mut old, &get("/.well-known/jwks.json"))
            .await
            .starts_with("HTTP/1.1 200")
    );

    // A key alone fits nothing, so the old certificate stays; then both are there.
    std::fs::write(
        folder.path().join("key.pem"),
        second.signing_key.serialize_pem(),
    )
    .unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    connect(&server, &[first.cert.der()], both).await.unwrap();
    write(folder.path(), &second);
    until("the new certificate serves", || async {
        connect(&server, &[second.cert.der()], both).await.ok()
    })
    .await;
    assert!(
        connect(&server, &[first.cert.der()], both).await.is_err(),
        "the old one serves nobody any more"
    );
    assert!(
        ask(&mut old, &get("/.well-known/jwks.json"))
            .await
            .starts_with("HTTP/1.1 200"),
        "but who has it stays"
    );
    assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
    assert_eq!(server.terminate().await, Some(0));
}

/// Row 35: a session may be resumed, but nothing is sent in it before hands are shaken, for that could be
/// sent again by anybody. Whichever name was asked for in the handshake, the `Host` of a request counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_read_before_the_handshake_ends() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificate();
    write(folder.path(), &made);
    let server = start(folder.path()).await;
    let mut config = trusting(&[made.cert.der()], &[b"http/1.1"]);
    config.enable_early_data = true;
    let config = Arc::new(config);
    let mut first = shake_hands(&server, &config).await.unwrap();
    let asked = get("/.well-known/jwks.json").replace("host: a", "host: elsewhere.example");
    let answer = ask(&mut first, &asked).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut early = rustls::ClientConnection::new(Arc::clone(&config), localhost()).unwrap();
    assert!(early.early_data().is_none(), "the server takes none");
    let mut second = shake_hands(&server, &config).await.unwrap();
    let kind = second.get_ref().1.handshake_kind();
    assert_eq!(
        kind,
        Some(HandshakeKind::Resumed),
        "it could have been asked"
    );
    assert!(ask(&mut second, &asked).await.starts_with("HTTP/1.1 200"));
}

/// What nobody can see from outside is a change all the same, to whoever says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_told_reads_its_certificate_at_once() {
    const BYTES: usize = 4_096;
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (certificate(), certificate());
    let write_alike = |made: &CertifiedKey<rcgen::KeyPair>| {
        write(folder.path(), made);
        for name in ["key.pem", "cert.pem"] {
            let file = folder.path().join(name);
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("{text:\n<BYTES$}")).unwrap();
            let file = std::fs::File::options().write(true).open(file).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        }
    };
    write_alike(&first);
    let server = start(folder.path()).await;
    let serves = async |made: &CertifiedKey<rcgen::KeyPair>| {
        connect(&server, &[made.cert.der()], &[b"http/1.1"])
            .await
            .ok()
    };
    let mut old = serves(&first).await.unwrap();
    ask(&mut old, &get("/.well-known/jwks.json")).await;
    write_alike(&second);
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    assert!(serves(&second).await.is_none(), "the files look the same");
    server.signal("-HUP").await;
    until("the new certificate serves", || serves(&second)).await;
    assert!(serves(&first).await.is_none());
    let answer = ask(&mut old, &get("/.well-known/jwks.json")).await;
    assert!(
        answer.starts_with("HTTP/1.1 200"),
        "who has the old one stays"
    );
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_without_a_certificate_has_nothing_to_read_anew_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::up(folder.path(), &[]).await;
    for _ in 0..3 {
        server.signal("-HUP").await;
    }
    let mut stream = TcpStream::connect(server.gateway).await.unwrap();
    let request = get("/.well-known/jwks.json");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await;
    assert!(read.is_ok_and(|read| read.is_ok()));
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    assert_eq!(server.terminate().await, Some(0));
}

/// Row 35: what is no handshake is closed, and so is one that does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_handshake_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificate();
    write(folder.path(), &made);
    let server = start(folder.path()).await;
    for bytes in [
        &b""[..],
        b"\x16",
        b"\x16\x03\x01\x02\x00\x01",
        get("/").as_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 512],
    ] {
        let mut stream = TcpStream::connect(server.gateway).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut said = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
        assert!(read.is_ok(), "{bytes:?} keeps a connection");
        assert!(
            !String::from_utf8_lossy(&said).contains("HTTP/"),
            "{said:?}"
        );
    }
    let mut stream = connect(&server, &[made.cert.der()], &[]).await.unwrap();
    let joined = ask(
        &mut stream,
        "POST /v1/shows/none/join HTTP/1.1\r\nhost: localhost\r\n\r\n",
    )
    .await;
    assert!(
        joined.starts_with("HTTP/1.1 404") || joined.starts_with("HTTP/1.1 503"),
        "{joined}"
    );
    let two = ask(&mut stream, "POST /w/none/join HTTP/1.1\r\nhost: localhost\r\norigin: https://localhost\r\ncontent-length: 0\r\n\r\n").await;
    assert!(
        !two.starts_with("HTTP/1.1 403"),
        "our own pages may join: {two}"
    );
}
