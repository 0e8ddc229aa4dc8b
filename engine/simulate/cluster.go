package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/simulate/workloads"
)

const (
	// maxReconciles is how many reconciles one Wait may take: those of an object that reconciles once
	// a minute for a month.
	maxReconciles = 50_000
	// maxAtOnce is how many reconciles there may be without time passing: those of a rollout of 10,000
	// members, a quarter at a time, and that of a thousand, one at a time. What the engine notices as
	// NoProgress takes fewer.
	maxAtOnce = 5_000
)

// Cluster holds objects, and the controllers of those of some kinds. It is not safe for concurrent
// use.
type Cluster struct {
	served
	store
	disturbances
	now time.Time
	// applied are the templates and manifests that each manager applied last.
	applied map[application]map[string]any
	// claimed are the objects whose status was set by someone, so that the cluster leaves it.
	claimed     map[types.UID]bool
	reached     map[string]sets.Set[string] // the phases that objects of a kind have had, by its name
	controllers map[reconciled]*controller
	normalized  *children.Normalized
	swaps       *plan.Swaps
	created     int // objects, for their UIDs
	// validate returns what in a child does not fit its type; nil means that nothing is known of types.
	validate func(child map[string]any) field.ErrorList
	// inert means that no object gets a status, and that created ones get no metadata.
	inert bool
	log   []Record
	left  int // reconciles, until ErrLimit
}

// Record is something that happened to an object of a kind: an Event, a write to a child, or its end.
type Record struct {
	At     time.Time
	Object types.UID
	Event  *plan.Event
	Step   *plan.Step
	// Gone is the object as it was when it was deleted.
	Gone *unstructured.Unstructured

	namespace string // of the object
}

// String returns a write as "create Pod/a", an Event as "Normal Reason note", and an end as "gone At/a".
func (r Record) String() string {
	switch {
	case r.Event != nil:
		return r.Event.Type + " " + r.Event.Reason + " " + r.Event.Note
	case r.Gone != nil:
		return "gone " + NameOf(r.Gone)
	}
	return string(r.Step.Verb) + " " + nameFrom(r.namespace, r.Step.Object())
}

// NameOf returns the name of an object for people: Kind/name.
func NameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + "/" + object.GetName()
}

// nameFrom is NameOf for an object that is referred to from a namespace: with its own if that is another.
func nameFrom(namespace string, object *unstructured.Unstructured) string {
	if own := object.GetNamespace(); own != namespace && own != "" {
		return object.GetKind() + "/" + own + "/" + object.GetName()
	}
	return NameOf(object)
}

// New returns a cluster without objects, at a time.
func New(kinds []*kind.Kind, now time.Time) *Cluster {
	return &Cluster{
		served: kinds, now: now.UTC(), left: math.MaxInt,
		applied: make(map[application]map[string]any), claimed: make(map[types.UID]bool),
		reached:     make(map[string]sets.Set[string]),
		controllers: make(map[reconciled]*controller), normalized: children.NewNormalized(), swaps: plan.NewSwaps(),
	}
}

// Validate has the API server reject children in which validate finds something that does not fit their
// type.
func (c *Cluster) Validate(validate func(child map[string]any) field.ErrorList) {
	c.validate = validate
}

// Now returns the time in the cluster.
func (c *Cluster) Now() time.Time { return c.now }

// Take returns what has happened since the last call.
func (c *Cluster) Take() []Record {
	log := c.log
	c.log = nil
	return log
}

// Apply creates an object or updates it, as `kubectl apply` does: an object of a kind is checked,
// and gets its defaults.
func (c *Cluster) Apply(manifest *unstructured.Unstructured) error {
	object := manifest.DeepCopy()
	k := c.kindInAnyVersion(object)
	if k != nil && !k.Versions.IsStored(object.Object) {
		converted, errs := k.AsStored(object.Object)
		if len(errs) > 0 {
			return errs.ToAggregate()
		}
		object.Object = converted
	}
	if object.GetNamespace() == "" && c.isNamespaced(object.GroupVersionKind()) {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	if object.GetName() == "" {
		return errors.New("metadata.name: Required value: the object needs a name")
	}
	live := c.find(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
	if live == nil {
		if k == nil {
			return c.create(object, userManager, object.Object)
		}
		unstructured.RemoveNestedField(object.Object, "status") // it is a subresource
		checked := k.Check(k.NewBudget(), object.Object)
		if len(checked.Errors) > 0 {
			return checked.Errors.ToAggregate()
		}
		return c.create(&unstructured.Unstructured{Object: checked.Object}, userManager, object.Object)
	}
	changed, err := c.merged(live, userManager, object)
	if err != nil {
		return err
	}
	if err := c.update(live, changed); err != nil {
		return err
	}
	c.applied[application{live.GetUID(), userManager}] = object.Object
	return nil
}

// Patch changes an object by a JSON merge patch, its status as well. From then on the cluster
// leaves a status that it contains as it is.
func (c *Cluster) Patch(live *unstructured.Unstructured, patch map[string]any) error {
	changed, err := patched(live, patch)
	if err != nil {
		return err
	}
	if _, ofStatus := patch["status"]; ofStatus {
		c.claimed[live.GetUID()] = true
	}
	return c.update(live, changed)
}

// Delete deletes an object, and what it controls. One with finalizers stays until they are gone.
func (c *Cluster) Delete(live *unstructured.Unstructured) { c.remove(live) }

// End returns the patch of a Pod or a Job that ends; nil for other types.
func (c *Cluster) End(object *unstructured.Unstructured, succeeded bool) map[string]any {
	return workloads.End(object, succeeded, c.now)
}

// Restart is that of the operator, which then remembers nothing and reconciles all objects.
func (c *Cluster) Restart() {
	c.controllers, c.normalized, c.swaps = make(map[reconciled]*controller), children.NewNormalized(), plan.NewSwaps()
}

// Settle lets everything happen that takes no time.
func (c *Cluster) Settle() error { return c.Wait(0) }

// ErrLimit reports that more reconciles are left than Limit allows.
var ErrLimit = errors.New("the limit of reconciles is reached")

// Limit bounds how many reconciles all waits from now on take together. Wait returns ErrLimit when that is
// reached.
func (c *Cluster) Limit(reconciles int) { c.left = reconciles }

// Wait lets time pass, and everything happen in it.
func (c *Cluster) Wait(d time.Duration) error {
	until, atOnce := c.now.Add(d), 0
	for range maxReconciles {
		if c.left <= 0 {
			return ErrLimit
		}
		reconciled, err := c.reconcileDue()
		if err != nil {
			return err
		}
		if reconciled || c.react() {
			if atOnce++; atOnce > maxAtOnce {
				return fmt.Errorf("at %s, the same is written again and again: %s", c.now.Format(time.RFC3339),
					c.lastWrites())
			}
			continue
		}
		next := c.nextWake()
		if next.IsZero() || next.After(until) {
			c.now = until
			return nil
		}
		c.now, atOnce = next, 0
	}
	return fmt.Errorf("%d reconciles were not enough; it is %s now", maxReconciles, c.now.Format(time.RFC3339))
}

// lastWrites describes what keeps objects from coming to an end.
func (c *Cluster) lastWrites() string {
	var texts []string
	for _, r := range slices.Backward(c.log) {
		if text := r.String(); !slices.Contains(texts, text) && len(texts) < 5 {
			texts = append(texts, text)
		}
	}
	slices.Reverse(texts)
	return strings.Join(texts, ", ")
}

// create adds an object that was created from a manifest.
func (c *Cluster) create(object *unstructured.Unstructured, manager string, manifest map[string]any) error {
	if c.endingNamespace(object.GetNamespace()) != nil {
		return endingError(object.GetNamespace())
	}
	if object.GroupVersionKind() == podKind && !c.inert {
		injected, err := c.inject(object)
		if err != nil {
			return err
		}
		object = injected
	}
	c.created++
	manifest = runtime.DeepCopyJSON(manifest)
	if !c.inert {
		object = children.StoreText(object)
	}
	object.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.created)))
	c.applied[application{object.GetUID(), manager}] = manifest
	if !c.inert {
		object.SetCreationTimestamp(metav1.NewTime(c.now))
		object.SetGeneration(1)
		object.SetResourceVersion("1")
		workloads.GiveAddress(object)
	}
	c.objects = append(c.objects, object)
	c.touch(reconciled{})
	return nil
}

// update replaces an object, if the API server would accept that.
func (c *Cluster) update(live, changed *unstructured.Unstructured) error {
	if changed.GetName() != live.GetName() || changed.GetNamespace() != live.GetNamespace() ||
		changed.GetUID() != live.GetUID() ||
		changed.GroupVersionKind() != live.GroupVersionKind() {
		return errors.New("apiVersion, kind, name, namespace and uid cannot be changed")
	}
	if k := c.KindOf(live); k != nil {
		checked := k.Check(k.NewBudget(), changed.Object)
		if errs := checked.ValidateUpdate(k.Check(k.NewBudget(), live.Object)); len(errs) > 0 {
			return errs.ToAggregate()
		}
		changed = &unstructured.Unstructured{Object: checked.Object}
	}
	if errs := immutableErrors(live, changed); len(errs) > 0 {
		return errs.ToAggregate()
	}
	c.replace(live, changed, reconciled{})
	return nil
}

// replace stores an object in the place of an older state, and queues the controllers, except that
// that wrote it.
func (c *Cluster) replace(live, changed *unstructured.Unstructured, by reconciled) {
	if !c.inert {
		changed = children.StoreText(changed)
	}
	if reflect.DeepEqual(live.Object, changed.Object) {
		return
	}
	if !c.inert {
		changed = changed.DeepCopy()
		version, _ := strconv.Atoi(live.GetResourceVersion())
		changed.SetResourceVersion(strconv.Itoa(version + 1))
		changed.SetGeneration(live.GetGeneration())
		if !reflect.DeepEqual(desired(live), desired(changed)) {
			changed.SetGeneration(live.GetGeneration() + 1)
		}
	}
	c.put(changed)
	if changed.GetDeletionTimestamp() != nil && !c.isHeld(changed) {
		c.drop(changed)
	}
	c.touch(by)
}

// desired returns what the generation of an object counts: everything but metadata and status.
func desired(object *unstructured.Unstructured) map[string]any {
	fields := make(map[string]any, len(object.Object))
	for name, value := range object.Object {
		if name != "metadata" && name != "status" {
			fields[name] = value
		}
	}
	return fields
}

// isHeld reports whether an object that is deleted stays for now.
func (c *Cluster) isHeld(object *unstructured.Unstructured) bool {
	return len(object.GetFinalizers()) > 0 || len(c.members(object)) > 0
}

// remove deletes an object and, if it is a namespace, what is in it. One that is held is marked as being deleted.
func (c *Cluster) remove(live *unstructured.Unstructured) {
	if c.isHeld(live) {
		if live.GetDeletionTimestamp() == nil {
			changed := live.DeepCopy()
			changed.SetDeletionTimestamp(new(metav1.NewTime(c.now)))
			if !c.inert { // the API server counts that as a change
				live = live.DeepCopy()
				live.SetGeneration(live.GetGeneration() + 1)
			}
			c.replace(live, changed, reconciled{})
		}
		for _, member := range c.members(live) {
			if current := c.byUID(member.GetUID()); current != nil {
				c.remove(current)
			}
		}
		return
	}
	c.drop(live)
}

// drop takes an object away, and those that only it owns.
func (c *Cluster) drop(gone *unstructured.Unstructured) {
	c.forget(gone.GetUID())
	c.normalized.Forget(gone.GetUID())
	if c.IsRun(gone) && !c.inert {
		c.log = append(c.log, Record{At: c.now, Object: gone.GetUID(), Gone: gone})
	}
	maps.DeleteFunc(c.controllers, func(of reconciled, _ *controller) bool { return of.object == gone.GetUID() })
	c.touch(reconciled{})
	for _, object := range c.objects {
		owners := object.GetOwnerReferences()
		owned := slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return r.UID == gone.GetUID() })
		kept := slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return c.byUID(r.UID) != nil })
		if current := c.byUID(object.GetUID()); owned && !kept && current != nil {
			c.remove(current)
		}
	}
	if namespace := c.endingNamespace(gone.GetNamespace()); namespace != nil && !c.isHeld(namespace) {
		c.drop(namespace)
	}
}

// touch queues all objects for all their controllers, except one. The engine queues only those that a change concerns;
// others find nothing to do.
func (c *Cluster) touch(except reconciled) {
	for of, controller := range c.controllers {
		controller.due = controller.due || of != except
	}
}

// application names what a manager, the user or the controller of a kind, applied last to an object.
type application struct {
	object  types.UID
	manager string
}

// userManager is the manager of what the user applies.
const userManager = "kubectl"

// merged returns an object after a template or a manifest was applied to it: with its fields, and without those that
// only the last one that the same manager applied had. Lists are replaced: no schema says by which key their items are
// merged.
func (c *Cluster) merged(
	live *unstructured.Unstructured, manager string, wanted *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	before := c.applied[application{live.GetUID(), manager}]
	var texts [3][]byte
	for i, value := range []map[string]any{before, wanted.Object, live.Object} {
		var err error
		if texts[i], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	if before == nil {
		texts[0] = []byte("{}")
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(texts[0], texts[1], texts[2])
	if err != nil {
		return nil, err
	}
	return mergePatched(texts[2], patch)
}

// patched returns an object with a JSON merge patch.
func patched(live *unstructured.Unstructured, patch map[string]any) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return mergePatched(before, text)
}

func mergePatched(object, patch []byte) (*unstructured.Unstructured, error) {
	text, err := jsonpatch.MergePatch(object, patch)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	return changed, utiljson.Unmarshal(text, &changed.Object) // whole numbers are int64
}

// react lets the other controllers of a healthy cluster act, and reports whether something changed.
// They take no time.
func (c *Cluster) react() (changed bool) {
	for _, object := range c.objects {
		if c.inert || c.holds(c.served, object) || c.claimed[object.GetUID()] || object.GetDeletionTimestamp() != nil {
			continue
		}
		if status := workloads.Status(object, c.now); status != nil {
			settled := object.DeepCopy()
			settled.Object["status"] = status
			c.replace(object, settled, reconciled{})
			changed = true
		}
	}
	return changed
}
