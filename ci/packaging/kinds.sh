# shellcheck shell=bash
# Sourced by scripts that take `--deb`. Sets `deb_only`; `profile`: `dist` for real packages, or `release`, which
# builds faster; and `level`, that of the .deb's compression.

case $* in
    "") deb_only='' profile=dist level=6 ;;
    --deb) deb_only=1 profile=release level=0 ;;
    *) echo "usage: $0 [--deb]" >&2; exit 2 ;;
esac
