//! One broker of a cluster: how Java is told to run it, and what it is told.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::kafka_doors::Doors;

/// Small, and quick to start rather than quick for long.
const SMALL: [&str; 4] = [
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
];

/// Where one is in its cluster.
#[derive(Debug)]
pub(crate) struct Place {
    /// The first leads the cluster; another only has records.
    pub(crate) is_first: bool,
    /// Of its plain door.
    pub(crate) port: u16,
    /// Of whoever leads the cluster.
    pub(crate) controller: u16,
}

/// Java with the jars, saying little, and that to this folder.
pub(crate) fn by_java(java: &Path, jars: &Path, folder: &Path) -> Command {
    let mut command = Command::new(java);
    let logging = folder.join("log4j2.properties");
    command
        .args(SMALL)
        .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
        .arg(format!("-Dkafka.logs.dir={}", folder.display()))
        .arg("-cp")
        .arg(jars.join("*"));
    command
}

/// It says little, and that to standard error.
pub(crate) fn quiet(folder: &Path) {
    let lines = "rootLogger.level=warn\n\
                 rootLogger.appenderRef.o.ref=O\n\
                 appender.o.type=Console\n\
                 appender.o.name=O\n\
                 appender.o.target=SYSTEM_ERR\n\
                 appender.o.layout.type=PatternLayout\n\
                 appender.o.layout.pattern=[%d] %p %m (%c)%n\n";
    fs::write(folder.join("log4j2.properties"), lines).unwrap();
}

/// Writes what it is told into this folder.
pub(crate) fn settings(folder: &Path, place: &Place, doors: &Doors) {
    quiet(folder);
    let data = folder.join("data");
    let (port, controller) = (place.port, place.controller);
    let (id, roles, leads) = if place.is_first {
        let leads = format!(",CONTROLLER://127.0.0.1:{controller}");
        (1, "broker,controller", leads)
    } else {
        (2, "broker", String::new())
    };
    let lines = format!(
        "process.roles={roles}\n\
         node.id={id}\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listeners=PLAINTEXT://127.0.0.1:{port}{leads}{}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}{}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{}\n\
         log.dirs={}\n\
         auto.create.topics.enable=false\n\
         num.partitions=1\n\
         offsets.topic.num.partitions=3\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.num.partitions=3\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n{}",
        doors.listeners(),
        doors.advertised(),
        doors.protocols(),
        data.display(),
        doors.settings
    );
    fs::write(folder.join("server.properties"), lines).unwrap();
}
