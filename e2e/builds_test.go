package e2e

import (
	"flag"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// The default is a commit whose children and status this build must understand, and the other way round. Who changes the marks
// of children, or the hash of kinds, on purpose moves it, and says so in CHANGELOG.md: a build does not run the CRDs of
// one that has another hash.
var otherBuild = flag.String("other-build", "346516fa168b011449bad55574b7f25535fd2cb0", "the commit of the build that takes turns with this one in TestBuildsTakeTurns")

// TestBuildsTakeTurns replays the scenarios of the shipped kinds and of the examples. After each step, the operator makes way for
// one of another build, an older one and this one in turns, and they share the objects while both run. Each state is what the
// scenario expects, and no change of the build replaces a child.
func TestBuildsTakeTurns(t *testing.T) {
	t.Parallel()
	other := buildCommit(t, *otherBuild)
	runs := prepareExamples(t)
	for _, name := range shippedScenarios {
		runs[name] = prepareShipped(t, name)
	}
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run.replay(t)
			r.builds = &builds{programs: []string{"fescue", other}}
			r.play(run.steps(t, run.scenario), slices.Concat(run.flags, []string{"--shards=2", "--leader-elect", "--leader-elect-retry-period=500ms"})...)
		})
	}
}

// buildCommit builds the program as it was at a commit.
func buildCommit(t *testing.T, commit string) (program string) {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "source"), filepath.Join(dir, "fescue")
	run := func(in string, command ...string) {
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Dir = in
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", c, out)
	}
	run("..", "git", "clone", "--quiet", "--shared", "--no-checkout", ".", source)
	run(source, "git", "checkout", "--quiet", commit)
	run(source, "go", "build", "-o", program, ".")
	return program
}

// builds are programs of which one operates at a time, in turns.
type builds struct {
	programs []string // the first operates
	webhooks atomic.Pointer[string]
}

// forward has the operator that was started last serve a connection of the API server.
func (b *builds) forward(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", *b.webhooks.Load())
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	relay(from, to)
}

// start starts an operator of the build whose turn it is.
func (r *replay) start() *process {
	if r.builds == nil {
		return r.home.start(r.flags...)
	}
	r.home.program = r.builds.programs[0]
	if r.home.everywhere { // it has no webhooks
		return r.home.start(r.flags...)
	}
	listen := testcluster.FreePort(r.t, "127.0.0.1")
	r.builds.webhooks.CompareAndSwap(nil, &listen)
	o := r.home.start(append(slices.Clone(r.flags), "--webhook-listen", listen)...)
	r.builds.webhooks.Store(&listen)
	return o
}

// changeBuild has an operator of the next build take over, and requires that all children stay.
func (r *replay) changeBuild() {
	r.t.Helper()
	owners := r.owners()
	var before map[string]types.UID
	require.True(r.t, testcluster.WaitUntil(func() bool { // a step may expect what a rollout begins and ends with
		before = r.uids()
		return testcluster.HoldsFor(2*time.Second, func() bool { return maps.Equal(before, r.uids()) })
	}), "the children do not come to rest")
	r.builds.programs = append(r.builds.programs[1:], r.builds.programs[0])
	next := r.start()
	require.Zero(r.t, r.operator.stop())
	r.operator = next
	reconciles := gauge("controller_runtime_reconcile_total", 1)
	require.True(r.t, testcluster.WaitUntil(func() bool { return int(reconciles(next.scrape())) >= len(owners) }), "it has not reconciled %d objects", len(owners))
	require.Equal(r.t, before, r.uids())
}

// owners returns the UIDs of the objects of the scenario's kinds.
func (r *replay) owners() (owners []string) {
	for _, k := range kind.WithoutDecorators(r.kinds) {
		for _, object := range r.list(k.GroupVersionResource(), "") {
			owners = append(owners, string(object.GetUID()))
		}
	}
	return owners
}

// uids returns the UIDs of their children, by types and names.
func (r *replay) uids() map[string]types.UID {
	uids, owners := make(map[string]types.UID), r.owners()
	for _, child := range r.children() {
		if slices.Contains(owners, child.GetLabels()[children.LabelOwnerUID]) {
			uids[child.GetNamespace()+"/"+simulate.NameOf(child)] = child.GetUID()
		}
	}
	return uids
}
