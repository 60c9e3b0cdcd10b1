# Sourced by scripts. `packages NAME…` installs those of the named Debian packages that are missing.
packages() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q '^install ok installed' \
            || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" != 0 ]; then
        echo "missing packages: run as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    # Several scripts may install at once. In a session of its own, apt is not interrupted when
    # ci/run ends what it started.
    setsid --wait flock /var/cache/apt sh -ec '
        apt-get -q -o DPkg::Lock::Timeout=600 update
        apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"' apt "${missing[@]}"
}
