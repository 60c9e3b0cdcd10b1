# shellcheck shell=bash disable=SC2034
# Sourced by scripts. Who publishes the packages, as they and their installers name it.
publisher=${PACKAGES_PUBLISHER:-The Agent Relay developers}
mail=${PACKAGES_MAIL:-agent-relay@localhost}
