//! What groups have built from the log, as operators read it.

use serde::Deserialize;
use utoipa::ToSchema;

/// A show as it is listed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Availability {
    /// The show.
    pub show: String,
    /// Rises with every event that changed it.
    pub version: u64,
    /// Its sections.
    #[schema(value_type = Vec<Object>)]
    pub sections: Vec<serde_json::Value>,
    /// Free seats of all sections.
    pub free: u64,
    /// When they were counted.
    #[schema(format = DateTime)]
    pub as_of: String,
    /// When the last one went; null while there are any.
    #[schema(format = DateTime, required)]
    pub sold_out_at: Option<String>,
}

/// What was sold, by minute.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sales {
    /// The show.
    pub show: String,
    /// How late an event may come and still count in its minute.
    pub lateness_ms: u64,
    /// The minutes, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub minutes: Vec<serde_json::Value>,
}

/// How many joined, by network in five minutes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Joins {
    /// The show.
    pub show: String,
    /// The length of a window.
    pub window_ms: u64,
    /// How late a minute may be told and still count in its window.
    pub lateness_ms: u64,
    /// The windows, oldest first, each with the networks from which most have joined.
    #[schema(value_type = Vec<Object>)]
    pub windows: Vec<serde_json::Value>,
}
