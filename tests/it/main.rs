//! Every test that looks at the program from outside, in chapters. Each chapter asks one question.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail at once, read its environment and start tasks of its own"
)]

mod chaos; // ...with real servers and cut cables?
mod contract; // does every backend keep the promise of its port?
mod e2e; // does the whole thing work from outside?
mod house; // does the code keep its own rules?
mod model; // is the definition what we promise?
mod sim; // do the promises hold when things break?

mod support; // what several chapters need
