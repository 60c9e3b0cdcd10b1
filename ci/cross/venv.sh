# shellcheck shell=bash
# Sourced by bash. `venv FOLDER PACKAGE…` installs Python packages into a virtual environment, unless
# they are there. The file `made` is made last and names them, so that an interrupted installation is
# repeated, and another version is installed. Several scripts may call it at once.
venv() {
    mkdir -p "${1%/*}"
    exec 5>"$1.lock"
    flock 5
    [ "$(cat "$1/made" 2>/dev/null)" != "${*:2}" ] || { exec 5>&- && return; }
    rm -rf "$1"
    /usr/bin/python3 -m venv "$1"
    "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
    echo "${*:2}" >"$1/made"
    exec 5>&-
}
