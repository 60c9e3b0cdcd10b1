# shellcheck shell=bash
# Sourced by scripts.

# The folder of what CI keeps outside the clone.
ci_cache=${AGENT_RELAY_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agent-relay/ci}
