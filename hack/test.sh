#!/usr/bin/env bash
# Runs tests, and prints at the end which were the slowest, and one summary of all of them: what
# failed, and what was left out and why. On a control plane, started by devcluster:
#
#   .devcluster/bin/devcluster -- hack/test.sh SUITE...
#
# The suites are test, e2e, race, race-histories, race-e2e, oracle and bench; the Makefile describes them. go vet would look at each package again
# for the race detector.
set -uo pipefail
cd "$(dirname "$0")/.."
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
gotestsum() { go tool -modfile hack/tools/go.mod gotestsum "$@"; }
say() { printf '\n== %s (%d:%02d so far)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

# run NAME ARGUMENTS runs go with the arguments. It prints a line for each package, and what fails.
run() {
  local name=$1
  shift
  gotestsum --format pkgname-and-test-fails --hide-summary all --jsonfile "$results/$name.json" --raw-command -- go "$@" |
    grep --line-buffered -v -e '^$' -e '^DONE'
  [ "${PIPESTATUS[0]}" = 0 ] || touch "$results/failed"
}

# Together, these run all goroutines of the program. The others repeat that with other objects, rights or failures.
all_goroutines='CommandRunsOnce|APIServerOutage|StopFinishesTheRunningReconcile|CustomclusterKeepsItsPods|UnmanagedPodsOfASet'
all_goroutines+='|ChildrenFollowTheirTemplates|ChildContestedByAPolicy|KindStartsOnceItHasItsCRDAndRights|LeaderIsKilled'
all_goroutines+='|ShardsAreShared|SlowKindDelaysNoOther|MetricsAuth|Webhooks|PodWebhooks|Reads|ElsewhereKeepsItsChildren'

for suite in "$@"; do
  case $suite in
    test)
      say 'all packages, with the promises in e2e/doc.go on the API server, and what is concurrent with the race detector: 5 minutes'
      # Beside the end-to-end tests, which wait as well as compute.
      {
        for module in k8stypes image knots prose dist; do run "$module" test -C "hack/$module" -json ./...; done
        run concurrent test -race -vet=off -json -run Concurrent ./cue/kind/proof
      } &
      run packages test -json -timeout 20m ./... # internal/cli takes ten minutes beside e2e on two cores
      wait
      ;;
    e2e)
      say 'the other tests on the API server, and those of the control plane itself: 6 minutes'
      run devcluster test -C hack/devcluster -json ./... &
      run e2e test -json -timeout 30m ./e2e -rest
      wait
      ;;
    race)
      say 'what starts goroutines, with the race detector: 3 minutes'
      run race test -race -vet=off -json ./admission/... ./engine ./internal/informers ./internal/operator/...
      ;;
    race-histories)
      say 'histories of the whole engine, with the race detector: 5 minutes'
      run race-histories test -race -vet=off -json ./hack/sim/history -histories 5
      ;;
    race-e2e)
      say 'all goroutines of the program on the API server, with the race detector: 5 minutes'
      run race-e2e test -race -vet=off -json -timeout 20m ./e2e -run "^Test($all_goroutines)\$"
      ;;
    oracle)
      say "more objects and mistakes, compared with CUE's evaluator: 2 minutes"
      run oracle test -json ./cue/kind/proof -run 'Differential|Mutations' -samples 300 -mutations 100 -behaviour-mutations 24
      ;;
    bench)
      say 'each benchmark once, with small loads: 3 minutes'
      unset GOGC
      run bench test -C bench -json -p 1 -bench . -benchtime 1x ./...
      ;;
    *)
      echo "no suite is called $suite: they are test, e2e, race, race-histories, race-e2e, oracle and bench" >&2
      exit 2
      ;;
  esac
done

cat "$results"/*.json > "$results/all"
say 'the slowest tests'
gotestsum tool slowest --num 10 --jsonfile "$results/all"
say 'the summary'
gotestsum --format none --raw-command -- cat "$results/all"
[ ! -e "$results/failed" ]
