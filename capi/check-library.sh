#!/bin/sh
# check-library.sh LIBRARY MAX_BYTES: exports nothing but the C API, needs no LLVM, no C++ runtime
# and no symbol newer than glibc 2.34, is small enough once stripped.
set -eu
library=$1 limit=$2
fail() { echo "$library: $1" >&2; exit 1; }

stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$library"
bytes=$(stat -c %s "$stripped")
[ "$bytes" -lt "$limit" ] || fail "$bytes bytes, the limit is $limit"
others=$(objdump -T "$library" | awk '$2 == "g" && $4 != "*UND*" && $0 !~ /\*UND\*/ {print $NF}' |
  grep -v '^knapper_' || true)
[ -z "$others" ] || fail "exports $others"
objdump -T "$library" | grep -q ' knapper_run$' || fail "does not export knapper_run"
needed=$(objdump -p "$library" | awk '/NEEDED/ {print $2}' |
  grep -vE '^(libc|libm|libpthread|libdl|librt|ld-linux-x86-64)\.so' || true)
[ -z "$needed" ] || fail "needs $needed"
newer=$(objdump -T "$library" | grep -oE 'GLIBC_2\.[0-9]+' | sort -u |
  awk -F. '$2 > 34' || true)
[ -z "$newer" ] || fail "needs $newer"
echo "$library: $bytes bytes stripped, exports the C API only"
