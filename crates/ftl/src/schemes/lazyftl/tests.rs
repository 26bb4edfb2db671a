//! The worked example of the specification, and what broke once.
