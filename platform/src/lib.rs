//! The one wall between Agent Relay and the operating system.
