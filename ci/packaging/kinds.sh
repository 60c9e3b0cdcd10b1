# shellcheck shell=bash
# Sourced by scripts that take `--deb`. Sets `deb_only`; `profile` and `folder`, cargo's profile and its output folder:
# `dist` for real packages, or `dev`, whose programs the tests have built; and `level`, that of the .deb's compression.

case $* in
    "") deb_only='' profile=dist folder=target/dist level=6 ;;
    --deb) deb_only=1 profile=dev folder=target/debug level=0 ;;
    *) echo "usage: $0 [--deb]" >&2; exit 2 ;;
esac
