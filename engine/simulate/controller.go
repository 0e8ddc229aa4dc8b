package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/reconcile"
)

// reconciled names an object and what is run for it: its kind, or a decorator.
type reconciled struct {
	kind   string
	object types.UID
}

// controller is what the engine has of one object.
type controller struct {
	due      bool
	wakeAt   time.Time // zero means never
	failures int       // in a row
	memory   *plan.Memory
}

// controllerOf returns the controller of an object, of its kind or a decorator. A new one reconciles it
// first.
func (c *Cluster) controllerOf(k *kind.Kind, object *unstructured.Unstructured) *controller {
	of := reconciled{k.Name(), object.GetUID()}
	known := c.controllers[of]
	if known == nil {
		known = &controller{due: true, memory: plan.NewMemory(object)}
		c.controllers[of] = known
	}
	return known
}

// WakeAt returns when an object will be reconciled although nothing has changed; zero means never.
func (c *Cluster) WakeAt(object *unstructured.Unstructured) (next time.Time) {
	for of, known := range c.controllers {
		if of.object == object.GetUID() {
			next = plan.Earlier(next, known.wakeAt)
		}
	}
	return next
}

// nextWake returns the first time at which an object is due.
func (c *Cluster) nextWake() (next time.Time) {
	for _, controller := range c.controllers {
		next = plan.Earlier(next, controller.wakeAt)
	}
	return next
}

// reconcileDue reconciles the objects that are due, and reports whether there were any.
func (c *Cluster) reconcileDue() (any bool, err error) {
	for _, object := range c.objects {
		for _, k := range c.behavioursOf(object) {
			if c.byUID(object.GetUID()) == nil {
				continue
			}
			known := c.controllerOf(k, object)
			if !known.due && (known.wakeAt.IsZero() || known.wakeAt.After(c.now)) {
				continue
			}
			any = true
			c.left--
			known.due, known.wakeAt = false, time.Time{}
			if _, err := c.reconcile(k, object.GetUID(), known); err != nil {
				return any, fmt.Errorf("%s: %w", NameOf(object), err)
			}
		}
	}
	return any, nil
}

// reconcile is one reconcile of an object. An error is a fault of the kind.
func (c *Cluster) reconcile(k *kind.Kind, uid types.UID, known *controller) (reconcile.Result, error) {
	object := c.byUID(uid)
	c.swaps.Forget(k, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	result := reconcile.Run(context.Background(), &world{c, k, k.NewBudget(), known.memory}, reconcile.Request{
		Kind: k, Object: object, Memory: known.memory, Failures: known.failures, Now: c.Now,
	})
	if result.Event != nil {
		c.log = append(c.log, Record{At: c.now, Object: uid, Event: result.Event})
	}
	known.wakeAt = result.At
	switch result.Then {
	case reconcile.Failed:
		return result, result.Err
	case reconcile.Rejected:
		retry := max(plan.RejectedRetry, min(plan.RetryBase<<min(known.failures, 32), plan.RetryMax))
		known.failures++
		known.wakeAt = plan.Earlier(known.wakeAt, c.now.Add(retry))
		return result, nil
	case reconcile.Again:
		known.due = true
	}
	known.failures = 0
	return result, nil
}

// world is the reconcile.World of one reconcile.
type world struct {
	*Cluster
	kind   *kind.Kind
	budget *kind.Budget
	memory *plan.Memory
}

// Look returns what a reconcile sees of the cluster. Nothing is behind.
func (w *world) Look(_ context.Context, owner *unstructured.Unstructured, _ bool) (*plan.View, error) {
	v := &plan.View{Budget: w.budget, Seen: &w.memory.Seen, Types: make(map[schema.GroupVersionKind]plan.ChildType),
		Normalized: w.normalized, Live: true}
	for _, gvk := range w.kind.Owns {
		v.Types[gvk] = plan.ChildType{Resource: w.ResourceOf(gvk), IsNamespaced: w.isNamespaced(gvk)}
	}
	for _, object := range w.objects {
		if slices.Contains(w.kind.Owns, object.GroupVersionKind()) && children.BelongsTo(object, owner, w.kind) {
			v.Children = append(v.Children, children.Of(w.ResourceOf(object.GroupVersionKind()), object))
		}
	}
	slices.SortStableFunc(v.Children,
		func(a, b children.Live) int { return strings.Compare(a.Object.GetName(), b.Object.GetName()) })
	lookups, err := plan.LookupsOf(w.budget, w.kind, owner)
	if v.Found = plan.Find(lookups,
		func(l kind.Lookup) ([]*unstructured.Unstructured, error) { return w.lookUp(l, owner), nil }); err != nil {
		v.Found = &plan.Found{Err: err}
	}
	if w.kind.Injects() {
		v.Uptake, v.InjectionErr = w.uptake(owner)
	}
	return v, nil
}

// SetFinalizers writes the finalizers of an object. To render an object that is being deleted writes none: it would be
// gone.
func (w *world) SetFinalizers(
	_ context.Context, object *unstructured.Unstructured, names []string,
) (*unstructured.Unstructured, error) {
	if w.inert && object.GetDeletionTimestamp() != nil {
		return object, nil
	}
	changed := object.DeepCopy()
	changed.SetFinalizers(names)
	return w.rewrite(object, changed), nil
}

// Store writes the status of an object, and rejects one that is not valid.
func (w *world) Store(
	_ context.Context, p *plan.Plan, _ *plan.Outcome, status map[string]any,
) (*unstructured.Unstructured, error) {
	changed := p.Object.DeepCopy()
	changed.Object["status"] = status
	if errs := statusErrors(w.kind.Check(w.kind.NewBudget(), changed.Object).Errors); len(errs) > 0 {
		return nil, apierrors.NewInvalid(w.kind.GroupVersionKind.GroupKind(), changed.GetName(), errs)
	}
	w.reach(p)
	return w.rewrite(p.Object, changed), nil
}

// rewrite stores what a reconcile changes of its own object, and returns the stored object. Without its last finalizer,
// the object is gone, and rewrite returns it as changed.
func (w *world) rewrite(object, changed *unstructured.Unstructured) *unstructured.Unstructured {
	live := w.byUID(object.GetUID())
	if live == nil {
		return object
	}
	w.replace(live, changed, reconciled{w.kind.Name(), object.GetUID()})
	if stored := w.byUID(object.GetUID()); stored != nil {
		return stored
	}
	return changed
}

// reach notes the phases that an object has, or has passed.
func (w *world) reach(p *plan.Plan) {
	reached := sets.New(p.Phase)
	for _, t := range p.Transitions {
		reached.Insert(t.From, t.To)
	}
	w.reached[w.kind.Name()] = reached.Union(w.reached[w.kind.Name()])
}

// statusErrors returns the errors that are about the status.
func statusErrors(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(errs),
		func(err *field.Error) bool { return !strings.HasPrefix(err.Field, "status") })
}

// lookUp returns the objects that a lookup finds for an object.
func (c *Cluster) lookUp(l kind.Lookup, owner *unstructured.Unstructured) []*unstructured.Unstructured {
	namespace := l.In(owner.GetNamespace(), c.isNamespaced(l.Type))
	return plan.Selected(l, slices.DeleteFunc(slices.Clone(c.objects), func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind() != l.Type || namespace != metav1.NamespaceAll && o.GetNamespace() != namespace
	}))
}

// strays returns the unmanaged objects that a set asks for.
func (w *world) strays(asked plan.Strays) plan.Strays {
	set := w.kind.Sets[asked.Set]
	unmanaged, err := labels.Parse(children.StraySelector(set.StrayLabels))
	if err == nil && len(set.StrayLabels) > 0 {
		asked.Objects = plan.WithLabels(slices.DeleteFunc(slices.Clone(w.objects),
			func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind() != set.Type || o.GetNamespace() != asked.Namespace ||
					!unmanaged.Matches(labels.Set(o.GetLabels()))
			}), asked.Labels)
	}
	return asked
}

// CarryOut carries out all steps of a comparison. After a rejection, nothing more is done for the
// same child, and nothing is pruned.
func (w *world) CarryOut(_ context.Context, owner *unstructured.Unstructured, todo *plan.Comparison) *plan.Changes {
	done := &plan.Changes{Deleted: make(map[types.UID]bool)}
	for _, asked := range todo.Find {
		done.Found = append(done.Found, w.strays(asked))
	}
	for _, s := range todo.Inspect {
		if live := w.find(s.Object().GroupVersionKind(), s.Object().GetNamespace(), s.Name); live != nil {
			done.Inspected = append(done.Inspected, live)
		}
	}
	if s := todo.Try; s != nil {
		done.NamespaceLeaving = w.endingNamespace(s.Wanted.GetNamespace()) != nil
	}
	rejected := make(map[string]bool)
	do := func(steps []plan.Step) {
		for _, s := range steps {
			if rejected[s.Child] {
				continue
			}
			if err := w.step(owner, s, done); err != nil {
				rejected[s.Child] = true
				done.Rejected = errors.Join(done.Rejected, todo.OfChild(s.Child, err))
			}
		}
	}
	do(todo.Steps)
	if todo.MayPrune() && !done.IsObstructed() {
		do(todo.Prunes)
	} else {
		clear(rejected)
		do(w.swaps.Release(w.kind, owner, done.Occupied, todo.Prunes))
	}
	return done
}

// forbidden is the answer of an API server whose admission rejects a request.
func forbidden(message string) *apierrors.StatusError {
	err := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	err.ErrStatus.Message = message
	return err
}

// verbs are those of the requests by which steps are carried out.
var verbs = map[plan.Verb]string{plan.Create: "create", plan.Apply: "patch", plan.Adopt: "patch", plan.Delete: "delete"}

// step carries out one step. An error is an answer of the API server, or a rule of the engine.
func (w *world) step(owner *unstructured.Unstructured, s plan.Step, done *plan.Changes) error {
	if err := w.rejects(w.served, verbs[s.Verb], s.Object()); err != nil {
		return err
	}
	switch s.Verb {
	case plan.Create:
		if other := w.find(s.Wanted.GroupVersionKind(), s.Wanted.GetNamespace(), s.Name); other != nil {
			return w.meet(owner, s, other, done)
		}
		if err := w.mayRepeat(owner, s); err != nil {
			return err
		}
		admitted, err := w.admitted(s)
		if err != nil {
			return err
		}
		if err := w.create(admitted, plan.FieldManager(w.kind), s.Wanted.Object); err != nil {
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) &&
				s.Wanted.GetNamespace() == owner.GetNamespace() {
				done.NamespaceLeaving = true
			}
			return err
		}
		done.Stored = append(done.Stored, children.Of(s.Resource, w.objects[len(w.objects)-1]))
	case plan.Delete:
		done.Deleted[s.Live.GetUID()] = true
		w.remove(w.byUID(s.Live.GetUID()))
		if s.Stray {
			done.Strays = append(done.Strays, s)
		}
	case plan.Apply, plan.Adopt:
		stored, err := w.rewritten(s)
		if err != nil {
			return err
		}
		live := w.byUID(s.Live.GetUID())
		w.replace(live, stored, reconciled{})
		stored = w.byUID(s.Live.GetUID())
		if s.Verb == plan.Apply {
			w.applied[application{stored.GetUID(), plan.FieldManager(w.kind)}] = s.Wanted.Object
			w.normalized.Remember(stored, s.Wanted, w.now)
		}
		done.Stored = append(done.Stored, children.Of(s.Resource, stored))
	}
	w.log = append(w.log, Record{At: w.now, Object: owner.GetUID(), Step: &s, namespace: owner.GetNamespace()})
	return nil
}

// mayRepeat returns why a child that leads back to its own type is not created, as in the engine.
func (w *world) mayRepeat(owner *unstructured.Unstructured, s plan.Step) error {
	child := s.Wanted.GroupVersionKind().GroupKind()
	if !children.LeadsBack(w.served, child) {
		return nil
	}
	line, err := children.Trace(owner, w.served,
		func(p children.Parent) (*unstructured.Unstructured, error) { return w.byUID(p.UID), nil })
	if err != nil || !line.Repeats(child) {
		return err
	}
	return line.Check()
}

// admitted returns the object that a step creates or applies as the API server takes it: one of a
// kind is checked, and gets its defaults when it is created. An error is a rejection.
func (w *world) admitted(s plan.Step) (*unstructured.Unstructured, error) {
	var errs field.ErrorList
	wanted := s.Wanted
	if w.validate != nil {
		errs = w.validate(wanted.Object)
	}
	if k := w.KindOf(wanted); k != nil && !w.inert && len(errs) == 0 {
		checked := k.Check(k.NewBudget(), wanted.Object)
		errs = checked.Errors
		if s.Verb == plan.Create {
			wanted = &unstructured.Unstructured{Object: checked.Object}
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(wanted.GroupVersionKind().GroupKind(), wanted.GetName(), errs)
	}
	return wanted.DeepCopy(), nil
}

// meet deals with an object that has the name of a child to create.
func (w *world) meet(
	owner *unstructured.Unstructured, s plan.Step, other *unstructured.Unstructured, done *plan.Changes,
) error {
	met, rejection := plan.Meet(w.kind, owner, s, other)
	switch met {
	case plan.Replace, plan.Await, plan.Accept, plan.Readopt:
		// nothing is hidden from a reconcile, so that it would have been found
		done.Waiting = true
	case plan.Rename:
		done.Taken = append(done.Taken, plan.Taken{Resource: s.Resource, Namespace: other.GetNamespace(), Name: s.Name})
	case plan.Occupy:
		done.Occupied = append(done.Occupied, plan.OccupiedBy(s.Resource, other))
	}
	return rejection
}

// rewritten returns an object after a step: with the labels, the annotations and the reference by
// which it is found and, if the template was applied, with all its fields.
func (w *world) rewritten(s plan.Step) (*unstructured.Unstructured, error) {
	live := w.byUID(s.Live.GetUID())
	if s.Verb == plan.Apply {
		if _, err := w.admitted(s); err != nil {
			return nil, err
		}
		changed, err := w.merged(live, plan.FieldManager(w.kind), s.Wanted)
		if err != nil {
			return nil, err
		}
		if errs := immutableErrors(live, changed); len(errs) > 0 && !w.inert {
			return nil, apierrors.NewInvalid(live.GroupVersionKind().GroupKind(), live.GetName(), errs)
		}
		return changed, nil
	}
	adopted := live.DeepCopy()
	take := func(has, wanted map[string]string, names []string) map[string]string {
		taken := make(map[string]string)
		maps.Copy(taken, has)
		for _, name := range names {
			delete(taken, name)
			if value, ok := wanted[name]; ok {
				taken[name] = value
			}
		}
		return taken
	}
	adopted.SetLabels(take(live.GetLabels(), s.Wanted.GetLabels(), children.OwnLabels))
	adopted.SetAnnotations(take(live.GetAnnotations(), s.Wanted.GetAnnotations(),
		append(slices.Clone(children.OwnAnnotations), children.AnnotationEntered)))
	adopted.SetOwnerReferences(s.Wanted.GetOwnerReferences())
	return adopted, nil
}
