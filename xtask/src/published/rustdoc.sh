#!/bin/sh
# rustdoc that writes JSON, which the stable compiler does for those who set this variable alone. Only rustdoc gets it: a
# build script that sees it would be run again, with everything that depends on it.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
