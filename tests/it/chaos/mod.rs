//! Do the promises hold with real servers and cut cables?

mod loss;
