#!/bin/bash -eu
# Builds each fuzz target of `make fuzz` for OSS-Fuzz, which sets $OUT.
#
# A target runs in $OUT, so that has what the targets read: the kinds and Pods of the tests, and go.mod, by which package
# corpus finds the root of the repository.

# The builder replaces a file of Go's standard library, which go build refuses where that is a downloaded module.
goroot=$(go env GOROOT)
if [[ "$goroot" == "$(go env GOMODCACHE)"* ]]; then
  export GOROOT=$SRC/go GOTOOLCHAIN=local
  cp -r "$goroot" "$GOROOT"
  export PATH=$GOROOT/bin:$PATH
fi

for package in $(make --no-print-directory fuzz-packages); do
  for target in $(grep -ho '^func Fuzz[A-Za-z]*' "$package"/*_test.go | cut -d ' ' -f 2); do
    compile_native_go_fuzzer_v2 "github.com/fescue-dev/fescue/${package#./}" "$target" "$target"
  done
done

mkdir -p "$OUT/engine/inject"
cp -r go.mod testdata examples "$OUT/"
cp -r engine/inject/testdata "$OUT/engine/inject/"
cp -r engine/inject/testdata/. "$OUT/testdata/" # FuzzInject reads it beside itself
