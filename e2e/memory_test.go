package e2e

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	memoryLimit = flag.Int("memory-limit", 0, "memory of each operator of TestWithin512MiB in MiB; 0 skips it")
	memoryNames = flag.Int("memory-names", 3000, "how many objects with new names TestWithin512MiB has reviewed, and how often it labels a Pod")
)

// memoryCgroup is a cgroup that bounds the memory of an operator and of its child processes.
type memoryCgroup struct {
	dir string
	// peak and kills are the files with the highest use in bytes, and with a line "oom_kill N".
	peak, kills string
}

// newMemoryCgroup creates a cgroup, and deletes it after the test. The test is skipped where that is
// not allowed. Swap would hide what does not fit, so the cgroup has none if it can be limited.
func newMemoryCgroup(t *testing.T, bytes int) memoryCgroup {
	t.Helper()
	parent, limits := "/sys/fs/cgroup/memory", []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	group := memoryCgroup{peak: "memory.max_usage_in_bytes", kills: "memory.oom_control"}
	swap := strconv.Itoa(bytes) // memory and swap together
	if pathExists("/sys/fs/cgroup/cgroup.controllers") {
		parent, limits = "/sys/fs/cgroup", []string{"memory.max", "memory.swap.max"}
		group, swap = memoryCgroup{peak: "memory.peak", kills: "memory.events"}, "0"
	}
	var err error
	if group.dir, err = os.MkdirTemp(parent, "fescue-test-"); err != nil {
		t.Skipf("no memory cgroup can be created: %v", err)
	}
	t.Cleanup(func() {
		// The kernel may still be ending the processes.
		require.True(t, testcluster.WaitUntil(func() bool { return os.Remove(group.dir) == nil }))
	})
	if err := os.WriteFile(filepath.Join(group.dir, limits[0]), []byte(strconv.Itoa(bytes)), 0); err != nil {
		t.Skipf("the memory of a cgroup cannot be limited: %v", err)
	}
	if file := filepath.Join(group.dir, limits[1]); pathExists(file) {
		require.NoError(t, os.WriteFile(file, []byte(swap), 0))
	}
	return group
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// wrapper returns a command that runs another in the cgroup: the shell is in it before it becomes the other.
func (g memoryCgroup) wrapper() []string {
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, g.dir}
}

func (g memoryCgroup) requireNoKill(t *testing.T) {
	t.Helper()
	require.Contains(t, strings.Split(g.read(t, g.kills), "\n"), "oom_kill 0", "processes were killed for their memory")
}

// read returns the text of a file of the cgroup.
func (g memoryCgroup) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// bounded is an operator whose memory is bounded, for two namespaces: one of an attacker, and one of
// others.
type bounded struct {
	*cluster
	operator *process
	others   *cluster
	url      string // of the webhooks
	added    []*kind.Kind
	// served is how often others were served, and slowest the longest that it took.
	served  int
	slowest time.Duration
}

// TestWithin512MiB is what users, and the authors of kinds, may do to an operator with the memory
// limit that `fescue manifests` sets: the process survives, and serves others meanwhile. It is not
// parallel, because the API server is busy with it.
func TestWithin512MiB(t *testing.T) {
	if *memoryLimit == 0 {
		t.Skip("it needs a memory cgroup, and minutes: make endurance runs it, or -memory-limit 512")
	}
	for _, test := range []struct {
		name string
		// kinds is the text of kinds that the operator loads, and broken of more that cannot be loaded.
		kinds, broken string
		run           func(*bounded, *testing.T)
	}{
		{name: "unfinished requests", run: (*bounded).unfinishedRequests},
		{name: "ever new names in requests", run: (*bounded).newNamesInRequests},
		{name: "ever new labels of a Pod", run: (*bounded).newLabelsOfPod},
		{name: "objects with 50000 labels", run: (*bounded).manyLabels},
		{name: "objects with 50000 keys", run: (*bounded).manyKeys},
		{name: "kinds that cannot be loaded", kinds: goodKind, broken: brokenKinds, run: (*bounded).brokenKinds},
		{name: "a size from the spec", kinds: rangerKind, run: (*bounded).sizeFromSpec},
	} {
		t.Run(test.name, func(t *testing.T) {
			group := newMemoryCgroup(t, *memoryLimit<<20)
			b := newBounded(t, group, test.kinds, test.broken)
			test.run(b, t)
			require.False(t, b.operator.hasEnded())
			require.Zero(t, b.operator.stop())
			bytes, err := strconv.Atoi(group.read(t, group.peak))
			require.NoError(t, err)
			t.Logf("at most %d of %d MiB; others were served %d times, in at most %v", bytes>>20, *memoryLimit, b.served, b.slowest.Round(time.Millisecond))
			group.requireNoKill(t)
		})
	}
}

// newBounded starts an operator with webhooks in a cgroup, without waiting for it to be ready.
func newBounded(t *testing.T, group memoryCgroup, kinds, broken string) *bounded {
	t.Helper()
	b := &bounded{cluster: newCluster(t)}
	b.others = newClients(t, testcluster.Namespace(t))
	flags, url := b.webhookURLFlags()
	b.url = url
	flags = append(flags, "--namespace", b.others.namespace, "--install-crds")
	if kinds != "" {
		replace := strings.NewReplacer("GROUP", b.namespace+".example.com", "FORTY", strings.Repeat("0,", 40))
		_, b.added = writeKind(t, replace.Replace(kinds))
		b.deleteCRDs(b.added[0].Name())
		if broken != "" {
			kinds = strings.Replace(kinds, "import ", "import \"list\"\nimport ", 1) + broken
		}
		flags = append(flags, "--kinds", corpus.Folder(t, replace.Replace(kinds)))
	}
	all := append(kindtest.Shipped(t), b.added...)
	o := b.installation(true)
	o.InstallCRDs = true
	o.Namespaces = append(o.Namespaces, b.others.namespace)
	b.wrapper = group.wrapper()
	b.operator = b.launchAs(b.proxy.through(b.grant(o.rights(t, all))), flags...)
	require.True(t, testcluster.WaitUntil(func() bool {
		return slices.Contains(strings.Fields(group.read(t, "cgroup.procs")), strconv.Itoa(b.operator.cmd.Process.Pid))
	}), "the operator is not in its cgroup")
	return b
}

// awaitReady waits until the operator is ready and the API server calls its webhooks.
func (b *bounded) awaitReady() {
	b.t.Helper()
	b.operator.awaitReady()
	b.awaitRegistration()
	require.True(b.t, testcluster.WaitUntil(func() bool {
		err := b.review()
		return err != nil && strings.Contains(err.Error(), rejection)
	}))
}

// rejection is what the webhooks say to review.
const rejection = `must not inject the privileged container "watch"`

// review has the webhooks review a Watcher of others that they must reject.
func (b *bounded) review() error {
	_, err := b.others.createBy(b.client, watchers, "Watcher", "privileged", map[string]any{
		"container": map[string]any{"name": "watch", "image": "busybox", "securityContext": map[string]any{"privileged": true}},
	}, dryRun)
	return err
}

// serveOthers requires a review for others, and an At of theirs to be done.
func (b *bounded) serveOthers() {
	b.t.Helper()
	b.served++
	began := time.Now()
	require.ErrorContains(b.t, b.review(), rejection)
	name := fmt.Sprint("a", b.served)
	b.others.createAt(name, longAgo, "echo")
	b.others.awaitPhase(name, "DONE")
	require.False(b.t, b.operator.hasEnded())
	b.slowest = max(b.slowest, time.Since(began))
}

// serveOthersDuring serves others until work has ended, which must not fail.
func (b *bounded) serveOthersDuring(work func(context.Context) error) {
	b.t.Helper()
	working, ctx := errgroup.WithContext(b.t.Context())
	working.Go(func() error { return work(ctx) })
	ended := make(chan struct{})
	go func() { _ = working.Wait(); close(ended) }()
	for {
		b.serveOthers()
		select {
		case <-ended:
			require.NoError(b.t, working.Wait())
			return
		default:
		}
	}
}

// unfinishedRequests keeps 450 connections, each with a request that announces a large body and has
// sent one byte of it.
func (b *bounded) unfinishedRequests(t *testing.T) {
	const connections, bodyBytes = 450, 7 << 20
	b.awaitReady()
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	var sent atomic.Int64
	for range connections {
		sending.Go(func() {
			for once := new(sync.Once); ctx.Err() == nil; { // the server ends each after seconds
				dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
				connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(b.url, "https://"))
				if err != nil {
					continue
				}
				_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", admission.ValidatePath, bodyBytes)
				if err == nil {
					once.Do(func() { sent.Add(1) })
				}
				ended := context.AfterFunc(ctx, func() { _ = connection.Close() })
				_, _ = io.Copy(io.Discard, connection)
				ended()
				_ = connection.Close()
			}
		})
	}
	defer sending.Wait()
	defer stop()
	require.True(t, testcluster.WaitUntil(func() bool { return sent.Load() == connections }))
	for range 5 {
		b.serveOthers()
	}
}

// newNamesInRequests has objects reviewed, and Pods injected, of which each has names of its own.
func (b *bounded) newNamesInRequests(*testing.T) {
	b.awaitReady()
	b.createWatcher("w", map[string]any{"a": "b"})
	b.cluster.awaitReady(watchers, "w")
	b.serveOthersDuring(func(ctx context.Context) error {
		sending, ctx := errgroup.WithContext(ctx)
		sending.SetLimit(4)
		for i := range *memoryNames {
			sending.Go(func() error { return b.reviewNewNames(ctx, i) })
		}
		return sending.Wait()
	})
}

// reviewNewNames has a Watcher and a Pod reviewed, with names that are made of i.
func (b *bounded) reviewNewNames(ctx context.Context, i int) error {
	names := func(prefix string) map[string]any { return namesOf(prefix, i, 100) }
	watcher := newObject(watchers, "Watcher", fmt.Sprint("w", i), map[string]any{"container": watchContainer, "configData": names("key")})
	watcher.Object["metadata"].(map[string]any)["labels"] = names("label")
	if _, err := b.objects(watchers).Create(ctx, watcher, dryRun); err != nil {
		return err
	}
	labels := make(map[string]string)
	for name := range names("pod") {
		labels[name] = ""
	}
	pod := podWith(map[string]string{"watch.fescue.dev/inject": "w"})
	pod.Labels = labels
	pod, err := b.typed.CoreV1().Pods(b.namespace).Create(ctx, pod, dryRun)
	if err == nil && len(pod.Spec.InitContainers) != 1 {
		err = fmt.Errorf("Pod %d has no sidecar: %v", i, pod.Annotations)
	}
	return err
}

// namesOf returns a map of n names that no other i has.
func namesOf(prefix string, i, n int) map[string]any {
	names := make(map[string]any, n)
	for j := range n {
		names[fmt.Sprintf("%s-%d-%d", prefix, i, j)] = ""
	}
	return names
}

// newLabelsOfPod replaces the labels of a Pod that a Watcher observes.
func (b *bounded) newLabelsOfPod(*testing.T) {
	b.awaitReady()
	b.createWatcher("w", map[string]any{"a": "b"})
	b.cluster.awaitReady(watchers, "w")
	b.createPod("p", "Always", nil, map[string]any{"watch.fescue.dev/inject": "w"})
	b.awaitInjectedPods("w", 1, 0, 0)
	b.serveOthersDuring(func(ctx context.Context) error {
		for i := range *memoryNames {
			pod := newObject(pods, "Pod", "p", nil)
			pod.Object["metadata"].(map[string]any)["labels"] = namesOf("label", i, 100)
			// It removes the labels that it applied before.
			if _, err := b.objects(pods).Apply(ctx, "p", pod, metav1.ApplyOptions{FieldManager: "labels"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// manyLabels creates objects with very many labels.
func (b *bounded) manyLabels(t *testing.T) {
	b.largeWatchers(t, func(watcher *unstructured.Unstructured) {
		watcher.Object["metadata"].(map[string]any)["labels"] = namesOf("l", 0, 50_000)
	})
}

// manyKeys creates objects with very many keys in the spec, which are copied into their ConfigMaps.
func (b *bounded) manyKeys(t *testing.T) {
	b.largeWatchers(t, func(watcher *unstructured.Unstructured) {
		watcher.Object["spec"].(map[string]any)["configData"] = namesOf("k", 0, 50_000)
	})
}

// largeWatchers creates four Watchers that enlarge makes large, and has each create its ConfigMap
// again and again.
func (b *bounded) largeWatchers(t *testing.T, enlarge func(*unstructured.Unstructured)) {
	const objects, rounds = 4, 5
	b.awaitReady()
	for i := range objects {
		watcher := newObject(watchers, "Watcher", fmt.Sprint("w", i), map[string]any{"container": watchContainer, "configData": map[string]any{"a": "b"}})
		enlarge(watcher)
		require.True(t, testcluster.WaitUntil(func() bool { // on a busy machine, the API server may time out
			_, err := b.objects(watchers).Create(t.Context(), watcher, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		}))
	}
	for range rounds {
		b.serveOthers()
		for i := range objects {
			name := fmt.Sprint("w", i)
			b.cluster.awaitReady(watchers, name)
			b.await(configMaps, name+"-config", "created", exists)
			b.delete(configMaps, name+"-config")
		}
	}
}

// brokenKinds take the CUE evaluator hours, or gigabytes.
const brokenKinds = `
#Hang: {apiVersion!: "GROUP/v1", kind!: "Hang", metadata!: {...}, spec!: {}, status?: {contract.#Status, x?: int}}
#HangController: contract.#Controller & {
	object!: #Hang
	names: plural: "hangs"
	status: x:     len([for a in _l for b in _l for c in _l for d in _l for e in _l {e}])
}
#Or: {apiVersion!: "GROUP/v1", kind!: "Or", metadata!: {...}, spec!: {re?: or(list.Range(0, 100000, 1))}, status?: contract.#Status}
#OrController: contract.#Controller & {object!: #Or, names: plural: "ors"}
#Long: {apiVersion!: "GROUP/v1", kind!: "Long", metadata!: {...}, spec!: {}, status?: {contract.#Status, x?: int}}
#LongController: contract.#Controller & {
	object!: #Long
	names: plural: "longs"
	status: x:     len(list.Range(0, 1e7, 1))
}
_l: [FORTY]
`

// brokenKinds requires the shipped kinds to be served before the others are loaded, and the kinds
// beside the broken ones after that.
func (b *bounded) brokenKinds(t *testing.T) {
	b.others.createAtWhenServed("before")
	b.others.awaitPhase("before", "DONE")
	code, reason := get(t, b.operator.address("--health-listen")+"/readyz/kinds")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, reason, "kinds are still being loaded")
	b.awaitReady()
	for _, name := range []string{"Hang", "Or", "Long"} {
		require.Contains(t, b.operator.log.String(), "kind "+name+": loading takes ")
	}
	b.serveOthers()
	goods := b.added[0].GroupVersionResource()
	b.create(goods, "Good", "g", map[string]any{"spec": map[string]any{}})
	b.cluster.awaitReady(goods, "g")
}

// rangerKind has objects that say how large a list is.
const rangerKind = `
package kinds

import ("list", "fescue.dev/cue/contract")

#Ranger: {
	apiVersion!: "GROUP/v1"
	kind!:       "Ranger"
	metadata!: {...}
	spec!: {n!: int & >=0 & <=100000000}
	status?: {contract.#Status, x?: int}
}
#RangerController: contract.#Controller & {
	object!: #Ranger
	names: plural: "rangers"
	status: x: len(list.Range(0, object.spec.n, 1))
}
`

// sizeFromSpec requires the objects whose lists are too long to be stalled, and the others of the
// kind to be reconciled.
func (b *bounded) sizeFromSpec(*testing.T) {
	b.awaitReady()
	rangers := b.added[0].GroupVersionResource()
	create := func(name string, n int64) {
		b.create(rangers, "Ranger", name, map[string]any{"spec": map[string]any{"n": n}})
	}
	for i := range 4 {
		create(fmt.Sprint("long", i), 100_000_000)
	}
	create("short", 3)
	b.serveOthers()
	for i := range 4 {
		_, reason, message := b.awaitStalled(rangers, fmt.Sprint("long", i))
		require.Equal(b.t, "EvaluationFailed", reason)
		b.t.Log(message)
	}
	b.serveOthers()
	b.await(rangers, "short", "counted", func(o *unstructured.Unstructured) bool {
		x, found, _ := unstructured.NestedInt64(o.Object, "status", "x")
		return found && x == 3
	})
}
