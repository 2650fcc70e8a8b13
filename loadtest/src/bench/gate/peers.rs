//! The peers, each a private process with a configuration of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use anyhow::ensure;

use crate::bench::gate::GateArgs;
use crate::bench::machine::{CLIENT_CORE, Process, SERVER_CORE, free_port};
use crate::bench::system::{RoomServer, wait_for};

/// What every peer is started with.
pub(super) struct Peers<'a> {
    pub(super) args: &'a GateArgs,
    pub(super) folder: &'a Path,
    /// Where they forward to.
    pub(super) shop: SocketAddr,
}

/// An nginx that runs; or another server that is started and measured as one.
#[derive(Debug)]
pub(super) struct Nginx {
    process: Process,
    pub(super) door: SocketAddr,
}

impl Nginx {
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Peers<'_> {
    /// The shop behind every door, on the core of who measures.
    ///
    /// # Errors
    /// There is no nginx, or it does not start.
    pub(super) fn shop(&self) -> anyhow::Result<Nginx> {
        self.nginx("shop", CLIENT_CORE, include_str!("peers/shop.conf"), &[])
    }

    /// nginx as Debian has it, with these words of its configuration.
    ///
    /// # Errors
    /// There is none, or it does not start.
    pub(super) fn plain(&self, name: &str, words: &[(&str, &str)]) -> anyhow::Result<Nginx> {
        let conf = include_str!("peers/plain.conf");
        self.nginx(name, SERVER_CORE, conf, words)
    }

    /// The handmade room, with Redis behind it.
    ///
    /// # Errors
    /// nginx or its Lua module is missing, or does not start.
    pub(super) fn handmade(&self, room: &RoomServer, naive: &str) -> anyhow::Result<Nginx> {
        let modules = &self.args.nginx_modules;
        let module = modules.join("ngx_http_lua_module.so");
        ensure!(module.exists(), "no {}", module.display());
        let redis = room
            .connection()?
            .ask(&[b"SCRIPT", b"LOAD", naive.as_bytes()])?;
        let script = include_str!("peers/handmade.lua")
            .replace("SCRIPT", &redis.text())
            .replace("REDIS_HOST", &room.address.ip().to_string())
            .replace("REDIS_PORT", &room.address.port().to_string());
        std::fs::write(self.folder.join("handmade.lua"), script)?;
        let modules = modules.display().to_string();
        let conf = include_str!("peers/handmade.conf");
        self.nginx("handmade", SERVER_CORE, conf, &[("MODULES", &modules)])
    }

    /// haproxy, on one thread.
    ///
    /// # Errors
    /// There is none, or it does not start.
    pub(super) fn haproxy(&self) -> anyhow::Result<Nginx> {
        let words = ["-db".to_owned(), "-f".to_owned()];
        let conf = include_str!("peers/haproxy.cfg");
        self.start(
            "haproxy",
            SERVER_CORE,
            (&self.args.haproxy, &words),
            (conf, &[]),
        )
    }

    fn nginx(
        &self,
        name: &str,
        core: &str,
        conf: &str,
        words: &[(&str, &str)],
    ) -> anyhow::Result<Nginx> {
        let program = (self.args.nginx.as_path(), &["-c".to_owned()][..]);
        self.start(name, core, program, (conf, words))
    }

    fn start(
        &self,
        name: &str,
        core: &str,
        (program, words): (&Path, &[String]),
        (conf, values): (&str, &[(&str, &str)]),
    ) -> anyhow::Result<Nginx> {
        ensure!(program.exists(), "no {}", program.display());
        let door = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut text = conf
            .replace("FOLDER", &self.folder.display().to_string())
            .replace("NAME", name)
            .replace("DOOR", &door.to_string())
            .replace("SHOP", &self.shop.to_string());
        for (word, value) in values {
            text = text.replace(word, value);
        }
        let file = self.folder.join(format!("{name}.conf"));
        std::fs::write(&file, text)?;
        let words = [words, &[file.display().to_string()]].concat();
        let log = self.folder.join(format!("{name}.err"));
        let process = Process::start(core, program, &words, &[], &log)?;
        wait_for(name, || Ok(TcpStream::connect(door).map(drop)?))?;
        Ok(Nginx { process, door })
    }
}
