package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Verb is the action of a step on a child.
type Verb string

const (
	// Create creates a child that does not exist.
	Create Verb = "create"
	// Apply gives a child all fields of its template.
	Apply Verb = "apply"
	// Adopt gives a child back its labels and its controller reference.
	Adopt Verb = "adopt"
	// Delete deletes exactly the object that was seen.
	Delete Verb = "delete"
)

// Step is one write that brings the children closer to their plan.
type Step struct {
	Verb     Verb
	Child    string // the name in the kind
	Resource schema.GroupVersionResource
	Name     string // of the object
	// Wanted is the object to create, apply, or adopt for.
	Wanted *unstructured.Unstructured
	// Live is the object to apply to, adopt or delete, which must not be changed.
	Live *unstructured.Unstructured
	// Stray reports that the object to delete is unmanaged, Keeps that what is written
	// is to stay as it is in the template, and Once that the child is created once in a phase.
	Stray, Keeps, Once bool
	// TakesOver reports that the fields that a creation has set, and the API server's defaults, must belong to apply
	// before the template is applied: an apply drops only fields of its own.
	TakesOver bool
	// Former reports that the object to delete was created in a former entry of the phase.
	Former bool
	// Foreground reports that what the object to delete owns has to be gone before it is.
	Foreground bool
}

// Object returns the object that the step writes: as it is wanted or, if it is deleted, as it is.
func (s Step) Object() *unstructured.Unstructured {
	if s.Wanted != nil {
		return s.Wanted
	}
	return s.Live
}

// Called returns the name of the object that the step writes, for people: with its namespace if that is not
// the owner's.
func (s Step) Called(owner *unstructured.Unstructured) string {
	return children.Called(s.Object(), owner)
}

// Comparison describes how the children of an object differ from its plan.
type Comparison struct {
	// Steps are the writes; those of one child follow each other.
	Steps []Step
	// Prunes delete what is no longer wanted, once all steps are done.
	Prunes []Step
	// Try is a creation to try, in a dry run: only whether its namespace is being deleted is asked. Inspect are steps
	// whose objects are only to be read, with their managedFields, and Find strays to look for.
	Try     *Step
	Inspect []Step
	Find    []Strays
	// States are those of the children now.
	States []ChildState
	// Foreign are the objects that look like children and were not created for the object.
	Foreign []children.Live
	// Obstacles are those that no request is needed to find: rejected children, for which nothing is done until someone
	// changes something, and waiting ones.
	Obstacles
	// Gone are the children that are not created again.
	Gone error
	// Missing are these as they would be, with the UIDs that they had. Those of an object that waits in a phase for
	// its deletion, which are not created either, have none.
	Missing []children.Live
	// Leaving are the children that have to be gone before others are deleted, as far as the object
	// itself is about to go.
	Leaving []children.Live
	// Numbers are the highest numbers that were in use for members, by set.
	Numbers map[string]int
	// Altered are the children of which the API server has stored other values than their templates have, and
	// AlteredRetry is when the first of them is applied again.
	Altered      error
	AlteredRetry time.Time
	// Unlisted reports that children are wanted in places that the status has to list first.
	Unlisted bool

	sensitive *Plan // whose children may depend on what is sensitive; nil is none
}

// OfChild returns an error with the child that it is about, and without values that are sensitive. It wraps err.
func (c *Comparison) OfChild(child string, err error) error {
	if c.sensitive == nil {
		return fmt.Errorf("child %q: %w", child, err)
	}
	return c.sensitive.concealChild(child, err)
}

// MayPrune reports whether nothing that is wanted keeps what is no longer wanted, as far as the comparison knows.
func (c *Comparison) MayPrune() bool { return !c.IsObstructed() }

// isInSync reports whether there is nothing that may be written now.
func (c *Comparison) isInSync() bool {
	return len(c.Steps) == 0 && (len(c.Prunes) == 0 || !c.MayPrune())
}

// ErrNotServed reports that the API server does not serve the type of a child. Once it
// does, the object is reconciled again.
var ErrNotServed = errors.New("its type is not served by the cluster: install its CRD")

// Compare returns the writes for the children of a plan.
func Compare(p *Plan, v *View) *Comparison {
	c := &comparer{
		Comparison: &Comparison{Numbers: make(map[string]int)}, plan: p, view: v,
		wanted: make(map[types.UID]bool), left: make(map[types.UID]bool), restored: make(map[types.UID]bool),
	}
	if p.hidden != nil {
		c.sensitive = p
	}
	wanted := make([]wantedChild, 0, len(p.Children))
	for _, child := range p.Children {
		if child.Template == nil {
			c.leave(child)
			continue
		}
		w, err := c.complete(child)
		if err != nil {
			c.skip(child, err)
			continue
		}
		wanted = append(wanted, w)
	}
	missing := c.missingNamespaces(wanted)
	for _, child := range wanted {
		if i := slices.IndexFunc(wanted, child.clashesWith); i >= 0 {
			c.skip(child.Child, fmt.Errorf("%s %q is wanted by child %q as well", child.resource.Resource,
				children.Called(child.object, p.Object), wanted[i].Name))
			continue
		}
		switch {
		case p.Leaving && child.Phase == "":
			c.keep(child)
		case missing[child.object.GetNamespace()]:
			c.awaitNamespace(child)
		case !c.isInReach(child):
			c.keepOut(child, missing)
		case child.Set == nil:
			c.single(child)
		case child.Set.Ordered:
			c.ordered(child)
		default:
			c.set(child)
		}
	}
	slices.SortStableFunc(c.States, func(a, b ChildState) int { return strings.Compare(a.name, b.name) })
	if p.restores() {
		c.restoreOthers()
	}
	if p.isOver() && len(c.Steps) == 0 { // a child that is restored is part of the order
		c.dismantle()
	}
	slices.SortFunc(c.Leaving, func(a, b children.Live) int { // the first is reported
		return cmp.Or(strings.Compare(a.Resource.Resource, b.Resource.Resource),
			strings.Compare(children.Called(a.Object, p.Object), children.Called(b.Object, p.Object)))
	})
	if p.Prune && !c.Unlisted && !c.awaits { // what replaces it comes first
		c.prune()
	}
	if p.Prune || p.isOver() {
		c.Foreign = append(c.Foreign, v.Unmarked...)
	}
	c.noteAltered()
	return c.Comparison
}

// comparer compares the children of one plan.
type comparer struct {
	*Comparison
	plan *Plan
	view *View
	// wanted are the children that exist and belong to the plan.
	wanted map[types.UID]bool
	// left are those that stay although what is wanted of them is not known.
	left map[types.UID]bool
	// restored are those of the others that have to get their marks again.
	restored map[types.UID]bool
	// awaits reports that a child waits for its namespace, so that what replaces another may still be to come.
	awaits  bool
	altered map[string]altered // by child
}

// wantedChild is a child of the plan as an object.
type wantedChild struct {
	kind.Child
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// complete returns a child of the plan as an object of a type that is served.
func (c *comparer) complete(child kind.Child) (wantedChild, error) {
	gvk := children.TypeOf(child)
	served, owned := c.view.Types[gvk]
	switch {
	case !owned:
		return wantedChild{},
			fmt.Errorf("its type %s is not among those that the kind owns; add it to owns in #%sController",
				kind.TypeName(gvk), c.plan.Kind.GroupVersionKind.Kind)
	case served.Err != nil:
		return wantedChild{}, fmt.Errorf("%s: %w", kind.TypeName(gvk), served.Err)
	}
	object, err := children.Complete(c.plan.Kind, c.plan.Object, child, served.IsNamespaced)
	if err != nil {
		return wantedChild{}, err
	}
	if c.plan.places != nil && !c.plan.places.Has(gvk.GroupKind(), object.GetNamespace()) {
		return wantedChild{},
			fmt.Errorf("metadata.namespace: Forbidden: %q does not follow from what the user submitted",
				object.GetNamespace())
	}
	if err := c.view.reach(object); err != nil {
		return wantedChild{}, err
	}
	if children.IsReplaced(child) && !c.plan.Entered.IsZero() {
		children.MarkEntered(object, c.plan.Entered)
	}
	return wantedChild{child, served.Resource, object}, nil
}

// isInPlace reports whether an object is of the type, and in the namespace, of a child.
func (w wantedChild) isInPlace(e children.Live) bool {
	return e.Resource == w.resource && e.Object.GetNamespace() == w.object.GetNamespace()
}

// clashesWith reports whether another child could be the same object.
func (w wantedChild) clashesWith(other wantedChild) bool {
	if w.Name == other.Name || w.resource != other.resource || w.object.GetNamespace() != other.object.GetNamespace() {
		return false
	}
	if (w.Set == nil) == (other.Set == nil) {
		return w.object.GetName() == other.object.GetName()
	}
	set, single := w, other
	if w.Set == nil {
		set, single = other, w
	}
	_, isMember := children.MemberNumber(set.Set, set.object.GetName(), single.object.GetName())
	return isMember
}

func (c *comparer) reject(child string, err error) {
	c.Rejected = errors.Join(c.Rejected, c.OfChild(child, err))
}

// skip rejects a child and does nothing for it.
func (c *comparer) skip(child kind.Child, err error) {
	c.reject(child.Name, err)
	c.States = append(c.States, stateOf(child))
}

// stateOf returns the state of a child, or of a set, of which nothing exists.
func stateOf(child kind.Child) ChildState {
	if child.Set != nil {
		return ChildState{name: child.Name, set: true, wanted: child.Set.Replicas}
	}
	return ChildState{name: child.Name, wanted: 1}
}

// leave keeps a child unchanged whose template reads something absent. Only its marks are restored, by restoreOthers.
func (c *comparer) leave(child kind.Child) {
	for _, e := range c.view.Children {
		if e.Name == child.Name && e.IsOriginal() && children.IsOwnedBy(e.Object, c.plan.Object) {
			c.left[e.Object.GetUID()] = true
		}
	}
	c.States = append(c.States, ChildState{name: child.Name, wanted: 1, waiting: kind.WaitingFor(child.Absent)})
}

func (c *comparer) add(verb Verb, child wantedChild, wanted, live *unstructured.Unstructured) {
	if c.plan.Kind.Target == nil && (verb == Create || verb == Adopt) && children.IsElsewhere(c.plan.Object, wanted) &&
		!children.IsListed(c.plan.Object, wanted) {
		c.Unlisted = true
		return
	}
	object := live
	if live == nil {
		object = wanted
	}
	c.Steps = append(c.Steps, Step{
		Verb: verb, Child: child.Name, Resource: child.resource, Name: object.GetName(),
		Wanted: wanted, Live: live, Keeps: child.Update == kind.Apply, Once: children.IsOnce(child.Child),
	})
}

// missingNamespaces returns the namespaces that are children, and do not exist or are being deleted. One that is not
// among the wanted was rejected.
func (c *comparer) missingNamespaces(wanted []wantedChild) map[string]bool {
	missing := make(map[string]bool)
	for _, child := range c.plan.Children {
		if child.Template != nil && children.TypeOf(child) == kind.NamespaceType && child.Set == nil {
			missing[children.ObjectName(c.plan.Object, child)] = true
		}
	}
	for _, child := range wanted {
		if children.TypeOf(child.Child) == kind.NamespaceType && child.Set == nil {
			live := c.find(child)
			missing[child.object.GetName()] = live == nil || live.GetDeletionTimestamp() != nil
		}
	}
	return missing
}

// isInReach reports whether an object may have a child where it wants it. Nobody was asked for the rights to the
// children of a self-service kind, so these are in namespaces of the object alone.
func (c *comparer) isInReach(child wantedChild) bool {
	owner, namespace := c.plan.Object, child.object.GetNamespace()
	if !c.plan.Kind.IsSelfService || !children.IsElsewhere(owner, child.object) || namespace == "" {
		return true
	}
	return slices.ContainsFunc(c.view.Children, func(e children.Live) bool {
		return e.Object.GroupVersionKind() == kind.NamespaceType && e.Object.GetName() == namespace &&
			e.Object.GetDeletionTimestamp() == nil && children.IsOwnedBy(e.Object, owner)
	})
}

// keepOut creates nothing in a namespace that is not in reach. The child waits if that may still become a child of the
// object: it is wanted and someone else has it, or the template of a child waits, which may be that one.
func (c *comparer) keepOut(child wantedChild, missing map[string]bool) {
	namespace := child.object.GetNamespace()
	_, isWanted := missing[namespace]
	if isWanted || slices.ContainsFunc(c.plan.Children, func(other kind.Child) bool { return other.Template == nil }) {
		c.awaitNamespace(child)
		return
	}
	c.skip(child.Child, fmt.Errorf(
		`metadata.namespace: Forbidden: %q is neither the object's namespace nor a child of it, as userRights: "Kind" requires`,
		namespace))
}

// awaitNamespace keeps a child unchanged until its namespace, which is a child as well, exists.
func (c *comparer) awaitNamespace(child wantedChild) {
	c.awaits = true
	for _, e := range c.view.Children {
		if e.Name == child.Name && child.isInPlace(e) {
			c.wanted[e.Object.GetUID()] = true
		}
	}
	state := stateOf(child.Child)
	state.waiting = fmt.Sprintf("waiting for the namespace %q", child.object.GetNamespace())
	c.States = append(c.States, state)
}

// find returns the object that exists as a child with a name of its own; nil if none does.
func (c *comparer) find(child wantedChild) *unstructured.Unstructured {
	for _, e := range c.view.Children {
		if child.isInPlace(e) && e.Object.GetName() == child.object.GetName() {
			return e.Object
		}
	}
	return nil
}

// single compares a child that is one object.
func (c *comparer) single(child wantedChild) {
	state := ChildState{name: child.Name, wanted: 1}
	defer func() { c.States = append(c.States, state) }()
	live := c.find(child)
	switch {
	case live == nil && child.Delayed:
		state.waiting = delayed(child.Child)
		return
	case live == nil:
		c.create(child)
		return
	}
	if c.adjust(child, live) {
		state.ready = 1
	}
}

// adjust compares an object that exists with its template, and reports whether it is ready.
func (c *comparer) adjust(child wantedChild, live *unstructured.Unstructured) (isReady bool) {
	c.wanted[live.GetUID()] = true
	switch other := metav1.GetControllerOfNoCopy(live); {
	case c.plan.isFormer(child.Child, live):
		c.replaceFormer(child, live)
	case live.GetDeletionTimestamp() != nil && children.IsOnce(child.Child) && children.IsOwnedBy(live, c.plan.Object):
	case live.GetDeletionTimestamp() != nil:
		c.Waiting = true
	case other != nil && other.UID != c.plan.Object.GetUID():
		c.reject(child.Name, children.ControlledBy(child.resource, live, c.plan.Object, other))
	case !children.IsManaged(live, child.object):
		c.add(Adopt, child, child.object, live)
	case c.corrects(child, child.object, live):
	case child.Update == kind.Recreate && !children.HasTemplateOf(live, child.object):
		c.add(Delete, child, nil, live)
	default:
		return child.isReady(live)
	}
	return false
}

// replaceFormer deletes a child that was created once in a former entry of the phase. What it owns, such as the Pods of
// a Job, goes first: they would run beside those of its successor.
func (c *comparer) replaceFormer(child wantedChild, live *unstructured.Unstructured) {
	if live.GetDeletionTimestamp() != nil {
		c.Waiting = true
		return
	}
	c.add(Delete, child, nil, live)
	step := &c.Steps[len(c.Steps)-1]
	step.Foreground, step.Former = true, true
}

// corrects adds the step that applies a template to a child that differs from it, and reports whether
// there is one.
func (c *comparer) corrects(child wantedChild, wanted, live *unstructured.Unstructured) bool {
	if child.Update != kind.Apply {
		return false
	}
	if children.IsInSync(live, wanted, c.view.Normalized) && !c.retriesAltered(child, wanted, live) {
		return false
	}
	c.add(Apply, child, wanted, live)
	c.Steps[len(c.Steps)-1].TakesOver = children.TakesOver(live, wanted)
	return true
}

// alteredRetry is when to apply a template again of which the API server has stored other values: a policy that changed
// them may be gone.
const alteredRetry = 10 * time.Minute

// retriesAltered reports whether to apply a template again of which the API server has stored other values, and notes
// that it has if it is too early.
func (c *comparer) retriesAltered(child wantedChild, wanted, live *unstructured.Unstructured) bool {
	since := c.view.Normalized.Since(live.GetUID())
	if since.IsZero() {
		return false
	}
	paths := children.Alterations(live.Object, wanted.Object, "")
	if len(paths) == 0 {
		return false
	}
	due := since.Add(alteredRetry)
	if !due.After(c.plan.At) {
		return true
	}
	if c.AlteredRetry.IsZero() || due.Before(c.AlteredRetry) {
		c.AlteredRetry = due
	}
	if len(paths) > maxAlterations {
		paths = append(paths[:maxAlterations], "…")
	}
	first := children.Called(live, c.plan.Object)
	known, isKnown := c.altered[child.Name]
	if isKnown && known.first < first {
		first, paths = known.first, known.paths
	}
	if c.altered == nil {
		c.altered = make(map[string]altered)
	}
	c.altered[child.Name] = altered{child.resource.Resource, first, paths, known.count + 1}
	return false
}

// altered counts the objects of one child whose stored values differ from what was applied (retriesAltered); a set may
// have many.
type altered struct {
	resource string
	first    string // by name
	paths    []string
	count    int
}

// noteAltered reports them: for each child, the first one and how many there are.
func (c *comparer) noteAltered() {
	for _, child := range slices.Sorted(maps.Keys(c.altered)) {
		a := c.altered[child]
		more := ""
		if a.count > 1 {
			more = fmt.Sprintf("; so have %d others", a.count-1)
		}
		c.Altered = errors.Join(c.Altered,
			c.OfChild(child,
				fmt.Errorf("%s %q has other values than its template, as after a mutating policy or webhook: %s%s",
					a.resource, a.first, strings.Join(a.paths, ", "), more)))
	}
}

// maxAlterations is how many fields a message names.
const maxAlterations = 5

// isReady reports whether an object of a child is ready, by the kind or else by kstatus.
func (w wantedChild) isReady(live *unstructured.Unstructured) bool {
	if w.Ready != nil {
		return *w.Ready
	}
	return children.IsReady(live)
}

// create creates a single object, unless it was created in this phase and may not be created twice.
func (c *comparer) create(child wantedChild) {
	uid := c.plan.created[child.Name]
	switch {
	case !children.IsOnce(child.Child) || uid == "":
		c.add(Create, child, child.object, nil)
	case slices.ContainsFunc(c.view.Children, func(e children.Live) bool { return e.Object.GetUID() == uid }):
		// Its name has changed since.
	default:
		missing := child.object.DeepCopy()
		missing.SetUID(uid)
		c.Missing = append(c.Missing, children.Of(child.resource, missing))
		c.Gone = errors.Join(c.Gone,
			fmt.Errorf(
				"child %q: %s %q was created in phase %s and is gone; it is created only once: to start over, recreate the object",
				child.Name, child.resource.Resource, children.Called(child.object, c.plan.Object), c.plan.Phase))
	}
}

// restoreOthers adopts and restores what was created for the object and is not part of its plan
// now, such as what an earlier phase created: without a controller reference it would outlive the
// object, and without labels it would not be found.
func (c *comparer) restoreOthers() {
	k, owner := c.plan.Kind, c.plan.Object
	for _, e := range c.view.Children {
		created, isOriginal := children.OriginOf(e.Object)
		holder := metav1.GetControllerOfNoCopy(e.Object)
		// that the status records it says what the owner reference says of others
		isOriginal = isOriginal || created.Child != "" && children.IsRecorded(owner, e.Object)
		isForeign := !isOriginal || holder != nil && holder.UID != owner.GetUID() ||
			// it has outlived another
			(created.Outlives || children.IsDetached(owner, e.Object)) && !children.IsOwnedBy(e.Object, owner) ||
			k.Target == nil && children.IsElsewhere(owner, e.Object) && !children.IsListed(owner, e.Object)
		if c.wanted[e.Object.GetUID()] || isForeign || e.Object.GetDeletionTimestamp() != nil {
			continue
		}
		wanted := e.Object.DeepCopy()
		for _, name := range children.OwnLabels {
			unstructured.RemoveNestedField(wanted.Object, "metadata", "labels", name)
		}
		created.Mark(k, owner, wanted)
		if !children.IsManaged(e.Object, wanted) {
			c.restored[e.Object.GetUID()] = true
			c.Steps = append(c.Steps, Step{Verb: Adopt, Child: e.Name, Resource: e.Resource, Name: e.Object.GetName(),
				Wanted: wanted, Live: e.Object})
		}
	}
}

// prune deletes the children that belong to no phase and are not wanted, and finds what only looks
// like them. One that is restored is deleted later, as it will have another version.
func (c *comparer) prune() {
	for _, e := range c.view.Children {
		uid := e.Object.GetUID()
		if c.wanted[uid] || c.left[uid] || c.restored[uid] || e.Object.GetDeletionTimestamp() != nil {
			continue
		}
		switch holder := metav1.GetControllerOfNoCopy(e.Object); {
		case holder != nil && holder.UID != c.plan.Object.GetUID():
			c.lose(e)
		case !e.IsOriginal():
			c.Foreign = append(c.Foreign, e)
		case c.plan.isPrunable(e):
			c.Prunes = append(c.Prunes,
				Step{Verb: Delete, Child: e.Name, Resource: e.Resource, Name: e.Object.GetName(), Live: e.Object})
		}
	}
}

// lose reports a child that others control by now.
func (c *comparer) lose(e children.Live) {
	if e.IsOriginal() && children.IsLabelledFor(e.Object, c.plan.Object) {
		c.Foreign = append(c.Foreign, e)
	}
}

// Missing returns the children that a view does not show and that are not created, as they would be: those that were
// created once, and those of an object that waits in a phase for its deletion. Nothing else would find one that lost
// the label by which it is watched.
func Missing(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) []children.Live {
	p := unmoved(k, object, now)
	p.recall(v.Seen)
	seen := len(p.known)
	for _, child := range v.Children {
		if o, ok := children.OriginOf(child.Object); ok && p.known[o.Child] == child.Object.GetUID() {
			seen--
		}
	}
	if seen == 0 && (k.OnDelete == "" || !isLeaving(k, object)) {
		return nil
	}
	return Compare(Decide(k, object, v, now), v).Missing
}
