# shellcheck shell=bash
# Sourced by scripts that take `--deb`. Sets `deb_only`, and `profile`: `dist` for real packages, or `release`, which
# builds faster.

case $* in
    "") deb_only='' profile=dist ;;
    --deb) deb_only=1 profile=release ;;
    *) echo "usage: $0 [--deb]" >&2; exit 2 ;;
esac
