# Sourced by everything that builds for, or runs as, another system: `. ci/cross/env.sh`.
# Afterwards `cargo +deb test -p platform --target x86_64-pc-windows-gnu` works as it stands.

cache=$HOME/.cache/agent-relay

# Two compilers never share an output folder. Intermediate files are shared by all checkouts (cargo keys
# them by path, version and flags), what is run afterwards stays in the checkout.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/cross}
export CARGO_BUILD_BUILD_DIR=${CARGO_BUILD_BUILD_DIR:-$cache/build}
export CARGO_INCREMENTAL=0
# Set by a rustup or cargo that this shell may run in; they would overrule `+deb`.
unset RUSTC RUSTDOC CARGO RUSTC_BOOTSTRAP RUSTUP_TOOLCHAIN

export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
# A test that hangs is ended after ten minutes.
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="timeout -k 5 600 /usr/lib/wine/wine64"
export WINEPREFIX=${WINEPREFIX:-$cache/wine}
export WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
unset DISPLAY WINESERVER

# msvc is only type-checked, so its C compiler only has to exist.
export CC_x86_64_pc_windows_msvc=$cache/msvc/cl AR_x86_64_pc_windows_msvc=$cache/msvc/lib

# The flags name a folder outside the checkout, so that they are the same for every checkout.
export CARGO_TARGET_AARCH64_APPLE_DARWIN_RUSTFLAGS="-L native=$cache/macos -L framework=$cache/macos"
