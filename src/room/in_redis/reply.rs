//! What a script answers, read value by value. Anything unexpected is foreign.

use anyhow::{Context, anyhow, bail};
use redis::Value;

use crate::base::ids::FanId;
use crate::base::time::Timestamp;

/// Beyond this not every whole number is a number of a script.
const WHOLE_MAX: i64 = 1 << 53;

/// A number as scripts keep it: digits alone, and below 2^53.
pub(super) fn whole(text: &str) -> Option<u64> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| are_digits);
    number.filter(|number: &u64| *number < WHOLE_MAX.unsigned_abs())
}

/// The values of an answer that have not been read yet.
#[derive(Debug)]
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Opens a list.
    pub(super) fn of(value: Value) -> anyhow::Result<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other => bail!("{other:?} is no list"),
        }
    }

    /// Whether everything is read.
    pub(super) fn is_over(&self) -> bool {
        self.0.len() == 0
    }

    /// Everything must be read.
    pub(super) fn end(&self) -> anyhow::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        Err(anyhow!("{} values too many: {:?}", self.0.len(), self.0))
    }

    pub(super) fn value(&mut self) -> anyhow::Result<Value> {
        self.0.next().context("a value is missing")
    }

    pub(super) fn bytes(&mut self) -> anyhow::Result<Vec<u8>> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => bail!("{other:?} is no string"),
        }
    }

    pub(super) fn text(&mut self) -> anyhow::Result<String> {
        String::from_utf8(self.bytes()?).context("a string is not UTF-8")
    }

    pub(super) fn number(&mut self) -> anyhow::Result<u64> {
        self.maybe_number()?.context("a number is missing")
    }

    /// A number, as such or in digits; none where there is nothing.
    pub(super) fn maybe_number(&mut self) -> anyhow::Result<Option<u64>> {
        match self.value()? {
            Value::BulkString(digits) if digits.is_empty() => Ok(None),
            Value::BulkString(digits) => {
                let text = String::from_utf8_lossy(&digits);
                let number = whole(&text).with_context(|| format!("{text} is no number"))?;
                Ok(Some(number))
            }
            Value::Int(number @ 0..WHOLE_MAX) => Ok(Some(number.unsigned_abs())),
            other => bail!("{other:?} is no number"),
        }
    }

    /// A number, or -1 for none.
    pub(super) fn number_or_minus_one(&mut self) -> anyhow::Result<Option<u64>> {
        if self.0.as_slice().first() == Some(&Value::Int(-1)) {
            self.value()?;
            return Ok(None);
        }
        self.number().map(Some)
    }

    pub(super) fn time(&mut self) -> anyhow::Result<Timestamp> {
        self.maybe_time()?.context("a time is missing")
    }

    pub(super) fn maybe_time(&mut self) -> anyhow::Result<Option<Timestamp>> {
        let ms = self.maybe_number()?.map(i64::try_from).transpose()?;
        Ok(ms.map(Timestamp::from_unix_ms))
    }

    /// The field of this name must come, and its value is next.
    pub(super) fn field(&mut self, name: &str) -> anyhow::Result<&mut Self> {
        let found = self.text()?;
        if found == name {
            return Ok(self);
        }
        bail!("{found} stands where {name} was expected")
    }

    pub(super) fn fan(&mut self) -> anyhow::Result<FanId> {
        let bytes = self.bytes()?;
        let bytes = bytes
            .try_into()
            .map_err(|_| anyhow!("a fan has 16 bytes"))?;
        Ok(FanId(bytes))
    }
}
