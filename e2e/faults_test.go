package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/damagetest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	faults     = flag.Duration("faults", 0, "how long TestRandomFaults repeats its rounds; without it, it is left out, and so is TestDamagedChildren")
	faultsSeed = flag.Uint64("faults-seed", 0, "seed of the first round of TestRandomFaults; 0 is another one each time")
)

// crewKind has a set, an ordered set, and a single child, and there is the shipped At in the test's group. GROUP is replaced.
const crewKind = `
package crew

import (
	"fescue.dev/cue:kinds"
	"fescue.dev/cue/contract"
)

#Crew: {
	apiVersion!: "GROUP/v1", kind!: "Crew", metadata!: {name!: string, ...}
	spec: {count: *1 | (int & >=0 & <=9), text: *"1" | string}
	status?: {contract.#Status, pods?: int}
}
#CrewController: contract.#Controller & {
	object!: #Crew
	observed: _
	index: _
	names: plural: "crews"
	children: {
		config: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}
		pods: {replicas: object.spec.count, update: "Recreate", template: {
			apiVersion: "v1", kind: "Pod", metadata: labels: {crew: object.metadata.name, text: object.spec.text}
			spec: {terminationGracePeriodSeconds: 0, containers: [{name: "c", image: "busybox", env: [{name: "TEXT", value: object.spec.text}]}]}
		}}
		rows: {replicas: object.spec.count, ordered: true, template: {
			apiVersion: "v1", kind: "ConfigMap", metadata: name: "\(object.metadata.name)-row", data: {number: "\(index)", text: object.spec.text}
		}}
	}
	status: pods: len(observed.pods)
}

#At: {
	apiVersion!: "GROUP/v1", kind!: "At", metadata!: {name!: string, ...}
	spec!: {schedule!: string, command!: string}
	status?: kinds.#AtStatus
}
#AtController: kinds.#AtBehaviour & {
	object!: #At
	phases: RUNNING: children: pod: template: spec: containers: [{image: "busybox"}]
}
`

// noteDecorator gives some Guards a ConfigMap beside them.
const noteDecorator = `
#NoteDecorator: contract.#Decorator & {
	target: {apiVersion: "GROUP/v1", kind: "Guard", selector: matchLabels: note: "yes"}
	object: _
	children: note: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "\(object.metadata.name)-note", data: number: object.spec.number}
}
`

// cleanCrowd is a set of a Clean in the namespace FAR.
const cleanCrowd = `
	children: crowd: {replicas: len(object.spec.namespaces), template: {
		apiVersion: "v1", kind: "ConfigMap", metadata: {name: "\(object.metadata.name)-crowd", namespace: "FAR"}, data: text: object.spec.text
	}}
`

// faultTest is what the rounds of TestRandomFaults have in common.
type faultTest struct {
	*cluster
	flags      []string
	url        string // of the webhooks
	namespaces []string
	counts     map[string]int
}

func newFaultTest(t *testing.T) *faultTest {
	t.Helper()
	c := newCluster(t)
	c.everywhere, c.keepCRDs = true, true
	f := &faultTest{cluster: c, namespaces: []string{c.namespace}, counts: make(map[string]int)}
	for range 3 {
		f.namespaces = append(f.namespaces, testcluster.Namespace(t))
	}
	archive, err := os.ReadFile(filepath.Join("..", "examples", "archive", "kind.cue"))
	require.NoError(t, err)
	for _, source := range []string{
		convertedBackup(c.group()), crewKind, nightlyKind, strings.Replace(cleanKind, "MORE", cleanCrowd, 1), strings.Replace(guardKind, "DELETE", guardDelete, 1) + noteDecorator,
		// There is no provisioner, so the Pods wait for the claim, but do not mount it.
		strings.NewReplacer(`"example.com/v1"`, `"GROUP/v1"`, `volumeMounts: [{name: "files", mountPath: "/files"}]`, "", "volumes: [_volume]", "hostname: observed.files.metadata.name").Replace(string(archive)),
	} {
		dir, all := writeKind(t, strings.NewReplacer("GROUP", c.group(), "FAR", f.namespaces[1]).Replace(source))
		kinds := kind.WithoutDecorators(all)
		f.flags = append(f.flags, "--kinds", dir)
		for _, k := range kinds {
			c.deleteCRDs(k.Name())
		}
		c.installCRDs(kinds)
	}
	f.url = "https://" + testcluster.FreePort(t, "127.0.0.1")
	c.deleteWebhooks(c.webhookName())
	f.flags = append(f.flags, "--webhook-url", f.url, "--webhook-configuration", c.webhookName(), "--webhook-secret", c.namespace+"/"+operator.DefaultSecret)
	return f
}

// faultKinds are the kinds, with the child that is a ConfigMap in the namespace of the object, if there is one.
var faultKinds = map[string]string{"Archive": "", "At": "", "Backup": "config", "Clean": "own", "Crew": "config", "Guard": "base", "Nightly": ""}

// resource returns where the objects of a kind are.
func (f *faultTest) resource(kind, version string) schema.GroupVersionResource {
	plural := strings.ToLower(kind) + "s"
	if kind == "Nightly" {
		plural = "nightlies"
	}
	return schema.GroupVersionResource{Group: f.group(), Version: version, Resource: plural}
}

// spec returns a spec of a kind.
func (f *faultTest) spec(kind, version string, random *rand.Rand) map[string]any {
	n, text := random.Int64N(4), fmt.Sprint(random.IntN(5))
	switch kind {
	case "Archive":
		return map[string]any{"image": "busybox:" + text, "bucket": text}
	case "At":
		return map[string]any{"schedule": longAgo, "command": "true"}
	case "Backup":
		if version == "v1beta1" {
			return map[string]any{"keep": text, "volumes": "a b c"}
		}
		return map[string]any{"keep": n, "volumes": []any{"a", "b"}}
	case "Clean":
		in := []any{}
		for _, i := range random.Perm(3)[:n] {
			in = append(in, f.namespaces[1+i])
		}
		return map[string]any{"namespaces": in, "text": text, "role": random.IntN(2) == 0}
	case "Crew":
		return map[string]any{"count": n, "text": text}
	case "Guard":
		return map[string]any{"number": text, "keeps": n%2 == 0}
	}
	return map[string]any{}
}

// TestRandomFaults lets objects of many kinds live under random faults of two operators and of the API server, while users
// damage what there is. Nothing is created twice, nothing of others is touched, nothing is left behind, and all ends as if
// nothing had happened. It is not parallel, because there is one configuration of webhooks for all namespaces.
func TestRandomFaults(t *testing.T) {
	if *faults == 0 {
		t.Skip("it takes minutes: make test-faults runs it, or -faults 10m")
	}
	f := newFaultTest(t)
	seed, began := *faultsSeed, time.Now()
	if seed == 0 {
		seed = rand.Uint64N(1_000_000)
	}
	for rounds := 0; rounds < 2 || time.Since(began) < *faults; rounds++ {
		shards := 1 + seed%2 // with one, an operator is the standby of the other
		if !t.Run(fmt.Sprintf("seed %d, %d shards", seed, shards), func(t *testing.T) { newRound(t, f, shards, seed).run() }) {
			break
		}
		seed++
	}
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		t.Logf("%6d %s", f.counts[what], what)
	}
}

// faultTime is how long the faults of a round last.
const faultTime = 20 * time.Second

// round is a time of faults, and what follows.
type round struct {
	*faultTest
	random    *rand.Rand
	operators [2]faultyOperator
	isFaulty  atomic.Bool
	doomed    atomic.Pointer[process] // is killed after the next write
	seen      *observer
	// released are the owners whose children may stay, and lost the children that may not be recognized.
	released, lost map[types.UID]bool
	// spent are the names of objects whose Pod or Job was taken away, so that they do not end as others.
	spent map[string]bool
}

func newRound(t *testing.T, f *faultTest, shards, seed uint64) *round {
	t.Helper()
	c := *f.cluster
	c.t = t
	election := []string{fmt.Sprintf("--shards=%d", shards), "--leader-elect", "--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms"}
	r := &round{
		faultTest: &faultTest{&c, slices.Concat(f.flags, election), f.url, f.namespaces, f.counts},
		random:    rand.New(rand.NewPCG(seed, 0)), spent: make(map[string]bool), released: make(map[types.UID]bool), lost: make(map[types.UID]bool),
	}
	r.startOperators()
	resources := []schema.GroupVersionResource{pods, configMaps, clusterRoles, builtIn["job"], builtIn["deployment"], builtIn["persistentvolumeclaim"]}
	for kind := range faultKinds {
		resources = append(resources, f.resource(kind, "v1"))
	}
	r.seen = observe(t, c.client, f.namespaces, f.counts, r.isOwner, resources)
	r.misbehave()
	return r
}

func (r *round) isOwner(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == r.group()
}

// run lets objects live for a time under faults, and requires then that all is as without them.
func (r *round) run() {
	r.isFaulty.Store(true)
	for end := time.Now().Add(faultTime); time.Now().Before(end); {
		r.act()
		r.disturb()
		r.keepNamespace(r.random.IntN(150) == 0)
		<-time.After(time.Duration(r.random.IntN(200)) * time.Millisecond)
		r.requireNoViolation()
	}
	r.repair()
	require.True(r.t, r.until(func() bool { return r.keepNamespace(false) }), "a namespace is not gone")
	for _, object := range append(r.seen.release(""), r.seen.where(r.isNoChild)...) { // they may have the names of children
		r.seen.did("delete what is no child", "%s/%s: %v", object.GetKind(), object.GetName(), r.delete(object, metav1.DeletePropagationBackground))
	}
	r.settle()
	r.requireNoViolation()
	if owner, doubled := r.seen.doubled(); doubled != "" {
		r.fail(owner, "%s", doubled)
	}
	for i := range r.operators {
		for _, p := range r.operators[i].all {
			require.NotContains(r.t, p.log.String(), "this is a bug in Fescue")
		}
	}
}

// isNoChild reports whether an object was a child once and is none any more: it was made a copy of one, or it lost its labels, or
// its annotation came to name another owner, and its owner was deleted and left it before that was repaired.
func (r *round) isNoChild(object *unstructured.Unstructured) bool {
	record, owner := object.GetAnnotations()["fescue.dev/created-as"], object.GetAnnotations()[children.AnnotationOwner]
	isUnnamed := object.GetLabels()[children.LabelOwnerUID] == "" || owner != "" && !strings.Contains(owner, "/")
	isLeft := object.GetNamespace() == r.namespace && isUnnamed && len(object.GetOwnerReferences()) == 0
	return children.IsCopy(object) || isLeft && record != "" && !strings.HasSuffix(record, "/Orphan")
}

// keepNamespace deletes a namespace in which there are children, if asked to, and creates it again when it is gone.
func (r *round) keepNamespace(remove bool) (exists bool) {
	name, api := r.namespaces[3], r.typed.CoreV1().Namespaces()
	namespace, err := api.Get(r.t.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = api.Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		r.seen.did("create namespace", "%s: %v", name, err)
	case err == nil && remove && namespace.DeletionTimestamp == nil:
		r.seen.release(name)
		r.seen.did("delete namespace", "%s: %v", name, api.Delete(r.t.Context(), name, metav1.DeleteOptions{}))
	}
	return err == nil && namespace.DeletionTimestamp == nil
}

// act does something at random to an object, or to one of its children.
func (r *round) act() {
	kinds := slices.Sorted(maps.Keys(faultKinds))
	kind, version := kinds[r.random.IntN(len(kinds))], "v1"
	if kind == "Backup" && r.random.IntN(2) == 0 {
		version = "v1beta1"
	}
	name := fmt.Sprintf("%s-%d", strings.ToLower(kind), r.random.IntN(3))
	object := newObject(r.resource(kind, version), kind, name, r.spec(kind, version, r.random))
	object.SetNamespace(r.namespace)
	object.SetLabels(map[string]string{"note": []string{"yes", "no"}[r.random.IntN(2)]}) // for the decorator
	found := r.seen.where(func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	chance := r.random.IntN(100)
	switch {
	case len(found) == 0:
		if config := faultKinds[kind]; config != "" && chance < 15 {
			r.makeForeign(r.namespace, name+"-"+config, &unstructured.Unstructured{})
		}
		delete(r.spent, name)
		r.seen.did("create", "%s in %s: %v", name, version, r.make(object))
	case chance < 35:
		r.seen.did("edit", "%s in %s: %v", name, version, r.change(object, object.Object))
	case chance < 78:
		r.damage(found[0])
	case chance < 85:
		r.imitate(found[0])
	case r.isDeletable(found[0]):
		policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground}
		if kind == "Archive" || found[0].GetDeletionTimestamp() != nil { // what a phase needs would be gone
			policies = policies[:2]
		}
		policy := policies[r.random.IntN(len(policies))]
		err := r.delete(found[0], policy)
		if err == nil && policy == metav1.DeletePropagationOrphan {
			r.released[found[0].GetUID()] = true
		}
		r.seen.did("delete", "%s %s: %v", name, policy, err)
	}
}

// at returns where an object is.
func (r *round) at(object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := object.GetKind()
	resource := builtIn[strings.ToLower(kind)]
	if r.isOwner(object) {
		resource = r.resource(kind, object.GroupVersionKind().Version)
	} else if kind == "ClusterRole" {
		resource = clusterRoles
	}
	return r.client.Resource(resource).Namespace(object.GetNamespace())
}

func (r *round) make(object *unstructured.Unstructured) error {
	_, err := r.at(object).Create(r.t.Context(), object, metav1.CreateOptions{})
	return err
}

func (r *round) change(object *unstructured.Unstructured, patch map[string]any) error {
	_, err := r.at(object).Patch(r.t.Context(), object.GetName(), types.MergePatchType, []byte(jsonText(patch)), metav1.PatchOptions{})
	return err
}

// delete deletes an object, Pods without grace.
func (r *round) delete(object *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	options := metav1.DeleteOptions{PropagationPolicy: &policy}
	if object.GetKind() == "Pod" {
		options.GracePeriodSeconds = new(int64(0))
	}
	return r.at(object).Delete(r.t.Context(), object.GetName(), options)
}

// isDeletable reports whether what an object reads in a phase for its deletion exists: it is not created then.
func (r *round) isDeletable(object *unstructured.Unstructured) bool {
	return object.GetKind() != "Archive" || slices.ContainsFunc(r.seen.childrenOf(object), func(child *unstructured.Unstructured) bool {
		return child.GetKind() == "PersistentVolumeClaim" && isWhole(child, r.namespace)
	})
}

// damage damages a child, as damagetest does.
func (r *round) damage(owner *unstructured.Unstructured) {
	existing := slices.DeleteFunc(r.seen.childrenOf(owner), func(child *unstructured.Unstructured) bool {
		return !isWhole(child, r.namespace) || child.GetDeletionTimestamp() != nil || child.GetLabels()[foreignLabel] != ""
	})
	isArchive := owner.GetKind() == "Archive"
	if len(existing) == 0 || isArchive && owner.GetDeletionTimestamp() != nil { // it reads what may be orphaned as well
		return
	}
	child := existing[r.random.IntN(len(existing))]
	all := append(damagetest.Of(child), slices.Repeat([]damagetest.Damage{{Name: "deleted"}}, 4)...) // most others are about marks
	d := all[r.random.IntN(len(all))]
	isOnce, isGuard := child.GetLabels()["fescue.dev/phase"] != "", owner.GetKind() == "Guard"
	makesCopy := d.Name == "other fescue.dev/created-as"
	if takesAway := d.Patch == nil || makesCopy || d.Name == "without annotations" || strings.HasSuffix(d.Name, "entered"); takesAway && (isOnce || isArchive) {
		created, _, _ := unstructured.NestedString(owner.Object, "status", "childInventory", "created", children.NameInKind(child))
		if isArchive || isGuard || created != string(child.GetUID()) {
			return // an object that is being deleted would wait for it, or it would run again before it is recorded
		}
		r.spent[owner.GetName()] = true
	}
	if isOnce && (d.Name == "without labels" || strings.HasSuffix(d.Name, "owner-uid")) {
		r.spent[owner.GetName()] = true // no operator that starts later searches for it
	}
	elsewhere, _, _ := unstructured.NestedSlice(owner.Object, "status", "childInventory", "elsewhere")
	isRecorded := strings.Contains(fmt.Sprint(elsewhere), string(child.GetUID()))
	if child.GetNamespace() != r.namespace && !isRecorded && d.Patch != nil {
		return // nobody knows it
	}
	if makesCopy || !isRecorded {
		r.lost[child.GetUID()] = true
	}
	var err error
	if d.Patch == nil {
		err = r.delete(child, metav1.DeletePropagationBackground)
	} else {
		err = r.change(child, d.Patch)
	}
	r.seen.did("child "+d.Name, "%s/%s/%s: %s: %v", child.GetKind(), child.GetNamespace(), child.GetName(), d.Name, err)
}

// imitate makes an object that looks like a child, here or in another namespace.
func (r *round) imitate(owner *unstructured.Unstructured) {
	children := slices.DeleteFunc(r.seen.childrenOf(owner), func(child *unstructured.Unstructured) bool { return child.GetKind() != "ConfigMap" })
	if len(children) == 0 {
		return
	}
	child := children[r.random.IntN(len(children))]
	namespace, name := r.namespaces[r.random.IntN(len(r.namespaces))], child.GetName()
	if namespace == child.GetNamespace() {
		name += "-copy"
	}
	r.makeForeign(namespace, name, child)
}

// makeForeign creates a ConfigMap of someone else, with the marks that another object has.
func (r *round) makeForeign(namespace, name string, like *unstructured.Unstructured) {
	object := newObject(configMaps, "ConfigMap", name, nil)
	object.SetNamespace(namespace)
	labels, annotations := like.GetLabels(), like.GetAnnotations()
	if r.random.IntN(2) == 0 {
		delete(annotations, "fescue.dev/created-as")
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	_ = unstructured.SetNestedField(object.Object, "yes", "metadata", "labels", foreignLabel)
	r.seen.did("create foreign", "%s/%s %v: %v", namespace, name, annotations, r.make(object))
}

// settle requires that objects that are being deleted go, that the others come to be as new ones of the same spec, that
// nothing is written then, and that nothing is left when all are deleted.
func (r *round) settle() {
	r.deleteAll(func(o *unstructured.Unstructured) bool {
		return o.GetDeletionTimestamp() != nil || o.GetKind() == "Nightly" // which never rests
	})
	twins := make(map[types.UID]string)
	for _, object := range r.owners() {
		twin := newObject(r.resource(object.GetKind(), "v1"), object.GetKind(), "twin-"+object.GetName(), nil)
		twin.SetNamespace(r.namespace)
		twin.Object["spec"] = object.Object["spec"]
		twin.SetLabels(object.GetLabels())
		require.True(r.t, r.until(func() bool { // an operator may just start
			err := r.make(twin)
			return err == nil || apierrors.IsAlreadyExists(err)
		}))
		twins[object.GetUID()] = twin.GetName()
	}
	r.awaitAll("as its twin", func(object *unstructured.Unstructured) string {
		twin := r.seen.where(func(o *unstructured.Unstructured) bool { return o.GetName() == twins[object.GetUID()] })
		switch {
		case twins[object.GetUID()] == "" || r.spent[object.GetName()]:
			return ""
		case len(twin) == 0:
			return "there is none"
		}
		if is, want := r.seen.state(object, r.namespace), r.seen.state(twin[0], r.namespace); is != want {
			return "it is\n" + is + "\nand not\n" + want
		}
		return ""
	})
	var writes []string
	require.True(r.t, r.until(func() bool {
		r.proxy.requests.reset()
		<-time.After(3 * time.Second)
		writes = slices.DeleteFunc(r.proxy.requests.all(), func(request string) bool {
			return strings.Contains(request, "/leases/") || strings.HasPrefix(request, "GET")
		})
		return len(writes) == 0
	}), "operators do not stop writing: %q", &writes)
	r.deleteAll(func(*unstructured.Unstructured) bool { return true })
	r.requireNothingLeft()
	require.True(r.t, r.until(func() bool { // what may stay, so that the next round does not find it
		left := r.seen.where(func(o *unstructured.Unstructured) bool { return nameOfOwner.MatchString(o.GetName()) })
		for _, object := range left {
			_ = r.delete(object, metav1.DeletePropagationBackground)
		}
		return len(left) == 0
	}))
}

// owners returns the objects of kinds that exist.
func (r *round) owners() []*unstructured.Unstructured { return r.seen.where(r.isOwner) }

// deleteAll deletes objects, and waits until they are gone.
func (r *round) deleteAll(which func(*unstructured.Unstructured) bool) {
	r.t.Helper()
	r.awaitAll("gone", func(object *unstructured.Unstructured) string {
		if !which(object) {
			return ""
		}
		if object.GetDeletionTimestamp() == nil && r.isDeletable(object) {
			r.seen.did("delete", "%s: %v", object.GetName(), r.delete(object, metav1.DeletePropagationBackground))
		}
		return "it is being deleted"
	})
}

// awaitAll waits until nothing is wrong with any object.
func (r *round) awaitAll(what string, wrong func(*unstructured.Unstructured) string) {
	r.t.Helper()
	var name, problem string
	if !r.until(func() bool {
		problem = ""
		for _, object := range r.owners() {
			if is := wrong(object); is != "" {
				name, problem = object.GetName(), is
			}
		}
		return problem == ""
	}) {
		r.fail(name, "%s is not %s: %s", name, what, problem)
	}
}

// requireNothingLeft waits until no child is left of objects that are gone, but for those that the test let stay.
func (r *round) requireNothingLeft() {
	r.t.Helper()
	var left []*unstructured.Unstructured
	if !r.until(func() bool {
		left = r.seen.where(func(o *unstructured.Unstructured) bool {
			owner := types.UID(o.GetLabels()[children.LabelOwnerUID])
			stays := strings.HasSuffix(o.GetAnnotations()["fescue.dev/created-as"], "/Orphan") || r.released[owner] && o.GetNamespace() == r.namespace
			return !stays && (owner != "" || o.GetAnnotations()[children.AnnotationOwner] != "") && (!r.lost[o.GetUID()] || isWhole(o, r.namespace))
		})
		return len(left) == 0
	}) {
		r.fail(left[0].GetName(), "%s/%s/%s is left, and %d more", left[0].GetKind(), left[0].GetNamespace(), left[0].GetName(), len(left)-1)
	}
}

func (r *round) requireNoViolation() {
	r.t.Helper()
	r.seen.mu.Lock()
	violations := slices.Clone(r.seen.violations)
	r.seen.mu.Unlock()
	if len(violations) > 0 {
		r.fail(violations[0], "%s", violations[0])
	}
}

// nameOfOwner is the name of an object of the test, also in those of its children.
var nameOfOwner = regexp.MustCompile(`\b(backup|crew|clean|guard|archive|at|nightly)-[0-9]\b`)

// fail ends the test, with the story of an object and what the operators have logged about it.
func (r *round) fail(name, format string, args ...any) {
	r.t.Helper()
	if owner := nameOfOwner.FindString(name); owner != "" {
		name = owner
	}
	r.seen.mu.Lock()
	text := about(r.seen.story, name)
	r.seen.mu.Unlock()
	for i := range r.operators {
		text += fmt.Sprintf("\nlog of operator %d:\n", i)
		for _, p := range r.operators[i].all {
			text += about(strings.Split(p.log.String(), "\n"), name) + "\n"
		}
	}
	require.FailNow(r.t, fmt.Sprintf(format, args...), "%s", text)
}
