//! The servers' side as `deploy/redis/` has it, with passwords and certificates made now.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::authority::Authority;

/// Who has a line in `users.acl`, and the word that its hash takes the place of.
const USERS: [(&str, &str); 6] = [
    ("catraca", "CATRACA"),
    ("catraca-gateway", "GATEWAY"),
    ("catraca-admitter", "ADMITTER"),
    ("catraca-admin", "ADMIN"),
    ("catraca-replica", "REPLICA"),
    ("catraca-sentinel", "SENTINEL"),
];

/// A folder of files as an operator has filled them in.
#[derive(Debug)]
pub(crate) struct Deployed {
    folder: TempDir,
    passwords: BTreeMap<&'static str, String>,
}

/// The repository's file of this name.
pub(crate) fn deployed(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/redis");
    folder.join(name)
}

impl Deployed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut users = fs::read_to_string(deployed("users.acl")).unwrap();
        let mut passwords = BTreeMap::new();
        for (user, word) in USERS {
            let password = format!("{:032x}", rand::random::<u128>());
            let hash = Sha256::digest(password.as_bytes());
            let hash = hash.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            users = users.replace(&format!("{word}_SHA256"), &hash);
            passwords.insert(user, password);
        }
        fs::write(folder.path().join("users.acl"), users).unwrap();
        Self { folder, passwords }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// `user:password`, as in an address.
    pub(crate) fn login(&self, user: &str) -> String {
        format!("{user}:{}", self.passwords[user])
    }

    pub(crate) fn password(&self, user: &str) -> &str {
        &self.passwords[user]
    }

    /// What a server is told.
    pub(crate) fn settings(&self) -> Vec<String> {
        let conf = deployed("redis.conf").display().to_string();
        ["--include", &conf, "--aclfile", &self.file("users.acl")]
            .map(str::to_owned)
            .into()
    }

    /// What a server is told that has replicas or may become one.
    pub(crate) fn replicated(&self) -> Vec<String> {
        let conf = deployed("replicated.conf").display().to_string();
        let mut settings = self.settings();
        let password = self.password("catraca-replica");
        let more = ["--include", &conf, "--masterauth", password];
        settings.extend(more.map(str::to_owned));
        settings
    }

    /// Makes a certificate for this machine in files of this name, signed by an authority of the
    /// name's own: the paths of authority, certificate and key.
    pub(crate) fn certificate(&self, name: &str) -> [String; 3] {
        let authority = Authority::new();
        let server = authority.certify(&["localhost", "127.0.0.1"]);
        let files = ["ca", "cert", "key"].map(|part| self.file(&format!("{name}-{part}.pem")));
        for (file, text) in files.iter().zip([authority.pem, server.cert, server.key]) {
            fs::write(file, text).unwrap();
        }
        files
    }
}
