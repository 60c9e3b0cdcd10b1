# Sourced by bash at the root of the checkout, before a build for another system: `. ci/cross/env.sh`.
# Then, for example, `cargo +deb test -p platform --target x86_64-pc-windows-gnu` works.

cache=$HOME/.cache/agent-relay
# An output folder for this compiler and this checkout only: cargo would mix up the files of
# several compilers or checkouts.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/cross}
# These variables would overrule `+deb`. rustup and cargo set some of them for their children.
unset RUSTC RUSTDOC CARGO RUSTC_BOOTSTRAP RUSTUP_TOOLCHAIN

# Windows: mingw links the programs, and Wine runs them: Wine 8 or, with WINE_VERSION=10, the newer
# one of Debian 13. shim/ has libraries that Wine lacks.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$here/wine
export WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" WINESERVER=/usr/lib/wine/wineserver64
unset DISPLAY
case ${WINE_VERSION:-8} in
    8) export WINEPREFIX=${WINEPREFIX:-$cache/wine} WINE_ROOT= ;;
    10) export WINEPREFIX=${WINEPREFIX:-$cache/wine10} WINE_ROOT=$here/trixie ;;
esac

# Linux on aarch64: qemu-user runs the programs, where it is installed.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"

# msvc, and Windows on aarch64: the code is only type-checked, so the C compiler only has to exist.
export CC_x86_64_pc_windows_msvc=$cache/msvc/cl AR_x86_64_pc_windows_msvc=$cache/msvc/lib
export CC_aarch64_pc_windows_gnullvm=$cache/msvc/cl AR_aarch64_pc_windows_gnullvm=$cache/msvc/lib

# macOS: zig links against stubs of the libraries that it does not know. The stubs are outside the
# checkout because the compiler remembers their path.
export SDKROOT=$cache/macos
