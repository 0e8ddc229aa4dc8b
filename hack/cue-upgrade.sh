#!/usr/bin/env bash
# Tries another version of CUE, in a copy of what is committed, and says what differs: what no longer
# builds, and where Fescue's own evaluator disagrees with the new one (docs/decisions/0067-proofs.md).
#
#   hack/cue-upgrade.sh v0.18.0
#
# It ends with 0 if nothing differs. Then raise the version in go.mod and commit.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?name a version of cuelang.org/go}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
cd "$copy"
was=$(go list -m -f '{{.Version}}' cuelang.org/go)

printf '== CUE %s instead of %s: build\n' "$version" "$was"
go get "cuelang.org/go@$version"
go mod tidy
git diff --no-index --stat "$OLDPWD/go.mod" go.mod || true
go vet ./cue/... ./internal/cli

printf '\n== what Fescue compiles, and what CUE %s evaluates\n' "$version"
# Everything that compares: expressions, generated behaviours, schemas and objects, all kinds of the
# repository, and the errors of kinds with mistakes, whose texts are CUE's in part.
go test -timeout 60m ./cue/... || differs=1
go test -timeout 60m ./internal/cli -run 'CueVet|Offline|Mistakes|Examples|CannotBeLoaded|OneLineEach' || differs=1
exit "${differs:-0}"
