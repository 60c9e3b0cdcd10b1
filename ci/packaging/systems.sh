# shellcheck shell=bash
# Sourced by scripts that take `--x86-64`. Sets `others`: the systems, beside Linux and Windows on x86_64, for which there
# are packages.

case $* in
    "") others=(aarch64-linux aarch64-darwin) ;;
    --x86-64) others=() ;;
    *) echo "usage: $0 [--x86-64]" >&2; exit 2 ;;
esac
