//! Sends messages into a folder of `.eml` files: the mail of the embedded system.
//!
//! A file's name is made of order, kind and event, so a message has one file however often it is
//! sent, and a name that is there was sent. It appears whole or not at all: written beside, synced,
//! renamed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use async_trait::async_trait;
use lettre::message::Mailbox;
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;

use crate::log::patience::Failure;
use crate::notify::mail::{Writing, mail, sender};
use crate::notify::{Notice, Sender};

/// A folder that takes mail.
#[derive(Debug, Clone)]
pub struct ViaMailbox {
    folder: PathBuf,
    from: Mailbox,
}

impl ViaMailbox {
    /// A mailbox in this folder, which is created where it is missing. `from` is the sender's
    /// address, with a name or without.
    ///
    /// # Errors
    /// Where the folder cannot be created, or `from` is no address.
    pub async fn open(folder: &Path, from: &str) -> anyhow::Result<Self> {
        let from = sender(from)?;
        fs::create_dir_all(folder)
            .await
            .with_context(|| format!("cannot create the mailbox {}", folder.display()))?;
        Ok(Self {
            folder: folder.to_owned(),
            from,
        })
    }

    /// The file of a message.
    fn name(notice: &Notice) -> String {
        let kind = notice.message.kind.word();
        format!("{}-{kind}-{}.eml", notice.order_id, notice.event_id)
    }

    /// Writes the file whole: it is there with all of its bytes, or not at all.
    async fn write(&self, name: &str, mail: &[u8]) -> std::io::Result<()> {
        let beside = self.folder.join(format!(".{name}.part"));
        let mut file = File::create(&beside).await?;
        file.write_all(mail).await?;
        file.sync_all().await?;
        fs::rename(&beside, self.folder.join(name)).await?;
        // The name itself must survive too.
        File::open(&self.folder).await?.sync_all().await
    }
}

#[async_trait]
impl Sender for ViaMailbox {
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        let name = Self::name(notice);
        let away = |error| Failure::Away(format!("the mailbox does not take mail: {error}"));
        if !fs::try_exists(self.folder.join(&name))
            .await
            .map_err(away)?
        {
            let mail = mail(notice, &self.from, Writing::Readable)?;
            self.write(&name, &mail.bytes).await.map_err(away)?;
        }
        Ok(name)
    }
}
