//! A private Kafka for a bench: one broker in KRaft mode, run by plain Java from a folder of jars.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::bench::machine::{Process, SERVER_CORE, free_port};
use crate::bench::system::wait_for;

/// A broker that runs until this value goes.
#[derive(Debug)]
pub(super) struct Broker {
    _process: Process,
    port: u16,
}

impl Broker {
    /// Starts one, with all that it keeps in this folder.
    ///
    /// # Errors
    /// Where there is no Java, or it does not start.
    pub(super) fn start(jars: &Path, folder: &Path) -> anyhow::Result<Self> {
        let (port, controller) = (free_port()?, free_port()?);
        let settings = folder.join("broker.properties");
        fs::write(&settings, lines(port, controller, &folder.join("broker")))?;
        let words = |class: &str| -> Vec<String> {
            let jars = jars.join("*").display().to_string();
            ["-Xms256m", "-Xmx512m", "-cp", &jars, class]
                .map(str::to_owned)
                .to_vec()
        };
        let made = Command::new("java")
            .args(words("kafka.tools.StorageTool"))
            .args([
                "format",
                "--cluster-id",
                "Y2F0cmFjYS1iZW5jaC0wMQ",
                "--config",
            ])
            .arg(&settings)
            .output()
            .context("Kafka needs java")?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "making the broker's storage: {said}");
        let mut broker = words("kafka.Kafka");
        broker.push(settings.display().to_string());
        let log = folder.join("broker.log");
        let process = Process::start(SERVER_CORE, &PathBuf::from("java"), &broker, &[], &log)?;
        let broker = Self {
            _process: process,
            port,
        };
        wait_for("Kafka", || {
            TcpStream::connect(broker.address())?;
            Ok(())
        })?;
        Ok(broker)
    }

    /// Ends it by SIGKILL; nobody answers at its address any more.
    ///
    /// # Errors
    /// Where somebody does.
    pub(super) fn kill(self) -> anyhow::Result<()> {
        let address = self.address();
        drop(self);
        ensure!(TcpStream::connect(address).is_err(), "the broker lives");
        Ok(())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its address, as `log.url`.
    pub(super) fn url(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.port)
    }
}

fn lines(port: u16, controller: u16, data: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={}\n\
         auto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\n",
        data.display()
    )
}
