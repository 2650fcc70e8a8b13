//! Where a process is in its life.

/// The phases of a process, in order. `/readyz` says yes only while `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Opening stores, binding ports.
    Starting,
    /// Serving.
    Ready,
    /// Told to stop: doors finish what they have accepted.
    Draining,
    /// Doors are shut; loops finish their step.
    Stopping,
    /// Everything has ended.
    Stopped,
}

impl Phase {
    /// The phase's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}
