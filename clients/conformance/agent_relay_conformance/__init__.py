"""The conformance kit: checks clients and daemons of Agent Relay against docs/PROTOCOL.md."""
