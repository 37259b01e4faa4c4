//! Builds a rack from one configuration: embedded or simulated
