// Package history plays histories of a cluster in memory: the whole engine, unchanged, against the model of an API
// server, with users, a kubelet and the garbage collector, while requests fail, answers are lost, watches break and the
// operator is killed. What must hold then is checked. Each history runs in a bubble of testing/synctest, so that its
// time is virtual.
package history

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// namespace has the objects of users, and leases the Leases of operators. The user agents of operators begin with
// operator, and their numbers follow.
const namespace, leases, product, operator = "default", "fescue-system", "fescue", product + "/"

// users, collector and emptier are the names of others that write.
const users, collector, emptier = "users", "the garbage collector", "the namespace controller"

// Options say what a history is made of.
type Options struct {
	// Seed decides what users, the kubelet and the faults do. With the runtime of hack/sim/overlay, the order of
	// everything follows from that of simrt.
	Seed uint64
	// Kinds are what the operator runs and users create.
	Kinds []*kind.Kind
	// Served are the resources that they need, which Served returns. Histories may share them; without any, a history
	// has its own.
	Served []apiserver.Resource
	// Make returns an object of one of the kinds; nil is one that its schema makes.
	Make func(random *rand.Rand, k *kind.Kind, now time.Time) map[string]any
	// Objects is how many users create.
	Objects int
	// Unchecked means that objects are stored as they are made, as while nothing validates them.
	Unchecked bool
	// Once means that a child is never made again for an owner that exists, and Ends that each object is in a terminal
	// phase in the end.
	Once, Ends bool
	// Moves means that objects may never come to rest: what must hold then is not asked. Cycles means the same for
	// kinds with an object whose status says so.
	Moves, Cycles bool
	// Disturbed is how long faults happen, and Calm how long none do after that: long enough for all that waits to be
	// tried again.
	Disturbed, Calm time.Duration
	Faults          apiserver.Faults
	// Stall means that of so many writes of operators one arrives late; 0 is none.
	Stall int
	// Skew is how far the clock of the API server is ahead of that of the others.
	Skew time.Duration
	// Operators is how many run at the same time, each with so many Workers, and Shards how many parts of the objects
	// they divide by Leases; without Operators, one runs that holds none. Kills is how often each is killed and started
	// again.
	Operators, Workers, Shards, Kills int
	// Installs means that operators install the CRDs of the kinds, as with --install-crds, and that there are none
	// before. Builds means that some of the operators that may be killed are of a former build, which has other hashes
	// of the kinds; with Stays, all of them are.
	Installs, Builds bool
	// Stays means that one operator is never killed, and runs on when nothing fails any more. A fresh one would do what
	// it forgot.
	Stays bool
	// Mishaps is how often something happens to the API server, and Restores means that this may be the restore of an
	// older state.
	Mishaps  int
	Restores bool
	// Start is how long after the beginning of the year 2000 the history begins.
	Start time.Duration
}

// Result is what a history came to.
type Result struct {
	// Writes is how many there were. Story tells them, and what failed, in their order.
	Writes int
	Story  []string
	// Violations are what must not be.
	Violations []string
	// Objects are those that were created.
	Objects int
}

// begin returns a history that has not begun to be played.
func begin(o Options) (*history, error) {
	if o.Served == nil {
		var err error
		if o.Served, err = Served(o.Kinds, o.Unchecked); err != nil {
			return nil, err
		}
	}
	store := apiserver.NewStore(time.Now, o.Served...)
	if o.Make == nil {
		o.Make = sampled
	}
	time.Sleep(o.Start)
	h := &history{
		Options: o, server: apiserver.NewServer(store), random: &source{random: rand.New(rand.NewPCG(o.Seed, 1))},
		began: time.Now(), altered: sets.New[types.UID](), recorded: sets.New[types.UID](),
		unlabelled: make(map[types.UID]time.Time), left: make(map[string]time.Time),
		edited:  make(map[types.UID]time.Time),
		entries: make(map[string]string),
		marksOf: make(map[string]types.UID),
		notes: notes{arrivedLate: sets.New[string](), deletedLate: sets.New[types.UID](),
			unanswered: make(map[string]time.Time)},
	}
	h.webhooks = webhooks{kinds: kind.WithoutDecorators(o.Kinds), random: h.random, log: slog.New(errorLog{h})}
	o.Faults.Random = h.random.IntN
	h.server.Disturb(o.Faults)
	store.Skew = o.Skew
	h.former, h.wasServed, h.copies = formerOf(o.Kinds), sets.New[*kind.Kind](), sets.New[types.UID]()
	if o.Installs {
		for _, k := range kind.WithoutDecorators(o.Kinds) {
			store.Undefine(h.resourceOf(k))
		}
	}
	if !o.Unchecked {
		store.Webhooks = h.webhooks.configured()
	}
	return h, nil
}

// Play plays a history in the bubble that it is called in.
func Play(o Options) (r Result, err error) {
	h, err := begin(o)
	if err != nil {
		return r, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	disturbed, calm := context.WithCancel(ctx)
	defer calm()
	var disturbing, others sync.WaitGroup
	disturbing.Go(func() { h.users(disturbed) })
	disturbing.Go(func() { h.mishaps(disturbed) })
	for by, do := range map[string]func(*apiserver.Store){"kubernetes": h.workloads, collector: func(s *apiserver.Store) { s.Collect() }, emptier: h.empty} {
		others.Go(func() { h.repeat(ctx, by, do) })
	}
	settle := func() error { return h.operateAll(1, o.Calm, 0, false) } // others are scaled down
	if o.Stays {
		ended := make(chan error, 1)
		go func() { ended <- h.operateAll(1, o.Disturbed+o.Calm, 0, false) }()
		settle = func() error { return <-ended }
	}
	if o.Stays && !o.Builds {
		time.Sleep(o.Disturbed)
	} else if err := h.operateAll(max(1, o.Operators), o.Disturbed, o.Kills, true); err != nil {
		return r, err
	}
	calm()
	disturbing.Wait()
	h.server.Disturb(apiserver.Faults{})
	h.server.Forbid(nil)
	h.server.Do(users, func(s *apiserver.Store) { letGo(user{h, s, h.random.own()}) })
	calmed, before, changed, settled := time.Now(), h.requests.Load(), 0, 0
	h.server.Do("", func(s *apiserver.Store) { changed = len(s.Changes()) })
	if err := settle(); err != nil {
		return r, err
	}
	h.late.Wait()
	h.server.Do("", func(s *apiserver.Store) { settled = len(s.Changes()) })
	sent := h.requests.Load() - before
	if most := h.mostRequests(settled - changed); sent > int64(most) && !o.Moves {
		r.Violations = append(r.Violations, fmt.Sprintf("%d requests in %v, with %d changes: more than %d", sent,
			o.Calm, settled-changed, most))
	}
	if err := h.operateAll(1, min(time.Minute, o.Calm), 0, false); err != nil {
		return r, err
	}
	stop()
	others.Wait()
	var changes []apiserver.Change
	h.server.Do("", func(s *apiserver.Store) { changes = s.Changes() })
	h.Moves = o.Moves || o.Cycles && isRestless(h, changes, changed, settled, calmed)
	if !h.Moves {
		r.Violations = append(r.Violations, restarted(h, changes[settled:], disowned(changes[:settled]))...)
	}
	r.Objects, r.Writes, r.Story = h.created, len(changes), h.story(changes)
	r.Violations = slices.Concat(r.Violations, h.noted, h.violations(changes), h.mixed(changes))
	return r, nil
}

// isRestless reports whether writes go on in calm times, which began at a time after some changes, or have no end after
// they are settled: the status of an object says that, unless the object waits as well.
func isRestless(h *history, changes []apiserver.Change, changed, settled int, calmed time.Time) bool {
	isLate := func(c apiserver.Change) bool { return isWrite(h, c) && c.At.After(calmed.Add(h.Calm/2)) }
	return slices.ContainsFunc(changes[settled:], isEndless) || slices.ContainsFunc(changes[changed:settled], isLate)
}

// isWrite reports whether an operator has changed something that should come to rest.
func isWrite(h *history, c apiserver.Change) bool {
	return isByOperator(c) && !isInstallation(c) && !h.isClaim(c)
}

// mostRequests returns how many requests an operator may send in calm times: each resource is listed and watched, each
// change may be followed by some requests, and what is rejected is tried again.
func (h *history) mostRequests(changes int) int {
	listed := 5 * len(h.Served)
	if h.Installs {
		listed *= 2 // CRDs too, one by one
	}
	return listed + 10*changes + 100*(h.Objects+1)
}

// isEndless reports whether an object was written whose status says that its children are created and deleted without
// end.
func isEndless(c apiserver.Change) bool {
	return c.After != nil && slices.ContainsFunc(conditionsOf(c.After), func(condition map[string]any) bool {
		return condition["reason"] == "NoProgress" || condition["reason"] == "ReplacedRepeatedly"
	})
}

// Served returns the resources that kinds need: their own, which validate their objects or not, and those of what they
// own and read.
func Served(kinds []*kind.Kind, unchecked bool) (served []apiserver.Resource, err error) {
	definitions, err := apiserver.Definitions()
	if err != nil {
		return nil, err
	}
	served = append(served, definitions)
	types := sets.New(schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	for _, k := range kind.WithoutDecorators(kinds) {
		manifest, err := crds.Object(k, true)
		if err != nil {
			return nil, err
		}
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, crd); err != nil {
			return nil, err
		}
		for i := range crd.Spec.Versions {
			if unchecked {
				crd.Spec.Versions[i].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: new(true)}
			}
		}
		resource, err := apiserver.Custom(crd)
		if err != nil {
			return nil, err
		}
		served = append(served, resource)
	}
	for _, k := range kinds {
		types.Insert(k.GroupVersionKind)
		types.Insert(k.Owns...)
		for _, l := range k.Lookups {
			types.Insert(l.Type)
		}
	}
	for _, k := range kind.WithoutDecorators(kinds) {
		types.Delete(k.GroupVersionKind)
	}
	of := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
	for _, gvk := range slices.SortedFunc(maps.Keys(types), of) {
		resource, err := apiserver.Of(gvk)
		if err != nil {
			return nil, err
		}
		served = append(served, resource)
	}
	return served, nil
}

// history is one that is being played.
type history struct {
	Options
	server  *apiserver.Server
	random  *source
	began   time.Time
	created int // by users
	// altered are the children that users have changed.
	altered sets.Set[types.UID]
	// entries are in which entry of its phase a child was last created for an owner, if it shows that.
	entries map[string]string
	// unlabelled is when a child last lost the label by which it is watched.
	unlabelled map[types.UID]time.Time
	// recorded are the children in other namespaces whose UIDs a status has had.
	recorded sets.Set[types.UID]
	// left is when the deletion of the last object of a name began, and edited when the spec of one last changed.
	left   map[string]time.Time
	edited map[types.UID]time.Time
	// requests are those of operators, without those for Leases.
	requests atomic.Int64
	// isEnded means that the namespace of all objects was deleted, and isStopped that the CRD of a kind was, so that it
	// stopped.
	isEnded, isStopped bool
	// copies are the objects that users have made of children.
	copies sets.Set[types.UID]
	// former are the kinds of a former build, and wasServed those whose CRD has existed.
	former    []*kind.Kind
	wasServed sets.Set[*kind.Kind]
	late      sync.WaitGroup       // the requests that arrive late
	marksOf   map[string]types.UID // the objects that have marks
	// operators is how many were started, engines and webhooks are those of the ones that run.
	operators atomic.Int64
	engines   []*engine.Engine
	webhooks  webhooks
	notes
}

// isByOperator reports whether an operator has written something else than a Lease.
func isByOperator(c apiserver.Change) bool {
	return strings.HasPrefix(c.By, operator) && c.Object().GetNamespace() != leases
}

// source is a source of random numbers for several goroutines.
type source struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (s *source) IntN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// own returns a source for one goroutine.
func (s *source) own() *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rand.New(rand.NewPCG(s.random.Uint64(), 2))
}

// idle is how often someone finds nothing to do until nothing is left to do: each time, half of the objects are passed
// over.
const idle = 60

// repeat has someone do something to the store, each time within a second. Who finds nothing to do waits for the next
// write.
func (h *history) repeat(ctx context.Context, by string, do func(*apiserver.Store)) {
	for version, unchanged := 0, 0; ctx.Err() == nil; unchanged++ {
		sleep(ctx, time.Duration(h.random.IntN(int(time.Second))))
		written := h.server.Written()
		h.server.Do(by, func(s *apiserver.Store) {
			do(s)
			if s.Version() != version {
				version, unchanged = s.Version(), 0
			}
		})
		if unchanged > idle {
			select {
			case <-ctx.Done():
			case <-written:
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// resourceOf returns that of the objects of a kind, or of a decorator.
func (h *history) resourceOf(k *kind.Kind) schema.GroupVersionResource {
	return h.resource(k.GroupVersionKind).GroupVersionResource
}

// resource returns that of a type, which is served.
func (h *history) resource(of schema.GroupVersionKind) apiserver.Resource {
	return h.Served[slices.IndexFunc(
		h.Served, func(r apiserver.Resource) bool { return r.GroupVersion().WithKind(r.Kind) == of })]
}
