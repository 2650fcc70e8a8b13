//! The shop's keys in a file, which somebody else brings up to date.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::base::limits::SELLER_JWKS_BYTES_MAX;
use crate::seller::Source;

/// A file.
#[derive(Debug)]
pub struct InFile(pub PathBuf);

#[async_trait]
impl Source for InFile {
    async fn read(&self) -> anyhow::Result<Vec<u8>> {
        let shown = self.0.display();
        let file = File::open(&self.0).await;
        let file = file.with_context(|| format!("opening {shown}"))?;
        let mut text = Vec::new();
        let most = SELLER_JWKS_BYTES_MAX as u64 + 1;
        let read = file.take(most).read_to_end(&mut text).await;
        read.with_context(|| format!("reading {shown}"))?;
        ensure!(text.len() <= SELLER_JWKS_BYTES_MAX, "{shown} is too long");
        Ok(text)
    }
}
