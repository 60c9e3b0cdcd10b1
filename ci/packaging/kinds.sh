# shellcheck shell=bash
# Sourced by scripts that take `--deb`. Sets `deb_only`; `profile`, cargo's profile: `dist`, or
# `dev`, of which the tests have built the programs; `built`, the folder with these; and `level`,
# that of the .deb's compression.

case $* in
    "") deb_only='' profile=dist built=target/dist level=6 ;;
    --deb) deb_only=1 profile=dev built=target/debug level=0 ;;
    *) echo "usage: $0 [--deb]" >&2; exit 2 ;;
esac
