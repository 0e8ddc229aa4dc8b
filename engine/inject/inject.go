package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/jsontext"
)

// Injector injects objects of some kinds. It is immutable and safe for concurrent use.
type Injector struct {
	kinds       []*kind.Kind // those that inject
	excluded    []string
	unavailable []schema.GroupKind
}

// NewInjector returns an injector for those of the kinds that inject. ownNamespace is where
// Fescue itself runs, and empty outside of a cluster: its Pods, and those that every cluster
// needs, are left alone, because a broken sidecar could stop what would repair it.
func NewInjector(ownNamespace string, kinds []*kind.Kind) *Injector {
	i := &Injector{excluded: []string{metav1.NamespaceSystem, corev1.NamespaceNodeLease}}
	if ownNamespace != "" {
		i.excluded = append(i.excluded, ownNamespace)
	}
	for _, k := range kinds {
		if k.Injects() {
			i.kinds = append(i.kinds, k)
		}
	}
	return i
}

// Without returns the same injector for while the objects of some kinds are not known.
func (i *Injector) Without(kinds ...schema.GroupKind) *Injector {
	without := *i
	without.unavailable = kinds
	return &without
}

// Result is the decision for one Pod.
type Result struct {
	// Patch is an RFC 6902 patch of the Pod that only adds; nil if there is nothing to add. The
	// only member that it replaces is StatusAnnotation.
	Patch []byte
	// Outcomes are those of all objects that the Pod asks for or that select it, sorted by
	// object; there are none for a Pod that needs no injection.
	Outcomes []Outcome

	text  []byte
	edits []edit
}

// Warnings returns one warning for each object that is not injected, for the author of the Pod.
func (r *Result) Warnings() []string {
	var warnings []string
	for _, o := range r.Outcomes {
		if !o.Done() {
			warnings = append(warnings, fmt.Sprintf("%s %q is not injected: %s", o.Kind, o.Name, o.Message))
		}
	}
	return warnings
}

// Pod returns the Pod with the patch applied. It shares memory with the text given to Inject.
func (r *Result) Pod() []byte {
	if len(r.edits) == 0 {
		return r.text
	}
	return apply(r.text, r.edits)
}

// mirrorAnnotation marks the Pods that kubelets create for static ones.
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Target is a Pod, or a Pod template.
type Target struct {
	// Text is not changed and must not change while the result is used.
	Text []byte
	// Namespace is that of the request: Pods that a controller creates have none of their own.
	Namespace string
	// Claims are the names of the volumes that a StatefulSet adds to the Pods of its template.
	Claims []string
}

// Inject merges into a Pod what it asks for. Candidates of other namespaces are ignored. Inject
// fails if the text is not a Pod, or if ctx ends.
func (i *Injector) Inject(ctx context.Context, target Target, candidates []*Injection) (*Result, error) {
	s := &state{result: Result{text: target.Text}, claims: target.Claims}
	if err := s.read(); err != nil {
		return nil, err
	}
	defer func() { s.pod.Release() }() // the last one that was parsed
	requests := i.wanted(s.pod.Member("metadata"), target.Namespace, candidates)
	if len(requests) == 0 {
		return &s.result, nil
	}
	if reason, why := i.skips(s.pod, target.Namespace); reason != "" {
		for _, r := range requests {
			s.result.Outcomes = append(s.result.Outcomes, Outcome{Object: r.object, Reason: reason, Message: why})
		}
		return &s.result, nil
	}
	status := s.pod.Member("metadata").Member("annotations").Member(StatusAnnotation)
	s.former = readStatus(status.String())
	requests, excess := s.limited(requests)
	s.prepare(requests)
	for {
		again, err := s.injectAll(ctx, requests)
		if err != nil {
			return nil, err
		}
		if !again {
			break
		}
		// What did not fit may fit now, and labels may have been added that a selector
		// matches. A second call would find that, so this one has to.
		if err := s.refresh(); err != nil {
			return nil, err
		}
		requests, excess = s.limited(withInjected(i.wanted(s.pod.Member("metadata"), target.Namespace, candidates),
			requests, s.injected))
	}
	s.skipAll(excess)
	if err := s.writeStatus(); err != nil {
		return nil, err
	}
	if !s.annotationsFit() {
		if err := s.retract(target.Text); err != nil {
			return nil, err
		}
	}
	if s.result.edits = s.edits; len(s.patch) > len("[") {
		s.patch[len(s.patch)-1] = ']' // where a comma was
		s.result.Patch = s.patch
	}
	return &s.result, nil
}

// skips returns why nothing is injected into a Pod, whatever it asks for.
func (i *Injector) skips(pod value, namespace string) (Reason, string) {
	switch {
	case pod.Member("metadata").Member("annotations").Member(mirrorAnnotation).IsSet():
		return MirrorPod, "the Pod mirrors a static Pod, which runs from a file on its node"
	case slices.Contains(i.excluded, namespace):
		return ExcludedNamespace, fmt.Sprintf("nothing is injected in the namespace %q", namespace)
	}
	return "", ""
}

// state is a Pod between the steps of its injection.
type state struct {
	merger
	result   Result
	claims   []string
	pod      value   // of result.text, without the edits
	former   []entry // of the annotation that the Pod had before
	injected []string
}

func (s *state) read() (err error) {
	if s.pod, err = jsontext.Parse(s.result.text); err == nil && !s.pod.Member("spec").Is('{') {
		err = errors.New("is not a Pod: it has no spec")
	}
	if err != nil {
		s.pod.Release()
		s.pod = value{}
	}
	return err
}

// prepare reserves room for a usual Pod, in three allocations instead of twenty.
func (s *state) prepare(requests []request) {
	size := 0
	for _, r := range requests {
		size += 256 // for its entry in the annotation, and the paths
		if r.injection != nil {
			size += len(r.injection.add.Raw())
		}
	}
	s.path, s.edits = make([]byte, 0, 64), make([]edit, 0, 8)
	s.patch = append(make([]byte, 0, size), '[')
}

// refresh applies the edits to the text.
func (s *state) refresh() error {
	if len(s.edits) == 0 {
		return nil
	}
	s.result.text, s.edits = apply(s.result.text, s.edits), s.edits[:0]
	s.pod.Release()
	return s.read()
}

// injectAll injects all requested objects that fit, and reports whether it must be repeated.
func (s *state) injectAll(ctx context.Context, requests []request) (again bool, err error) {
	s.result.Outcomes = make([]Outcome, 0, len(requests))
	var skipped, injected, metadata bool
	for _, r := range requests {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if slices.Contains(s.injected, r.id) { // in an earlier round
			s.result.Outcomes = append(s.result.Outcomes,
				Outcome{Object: r.object, Reason: Injected, Generation: r.injection.generation})
			continue
		}
		o := s.inject(r)
		s.result.Outcomes = append(s.result.Outcomes, o)
		skipped = skipped || !o.Done()
		if o.Reason == Injected {
			s.injected = append(s.injected, r.id)
			injected, metadata = true, metadata || r.injection.metadata
		}
	}
	return injected && (skipped || metadata), nil
}

// inject injects one object completely, or not at all.
func (s *state) inject(r request) Outcome {
	o := Outcome{Object: r.object, Reason: Present}
	switch {
	case r.injection != nil && r.injection.broken != "":
		o.Reason, o.Message = Stalled, r.injection.broken
		return o
	case r.injection != nil:
	case r.unavailable:
		o.Reason, o.Message = Unavailable, "the kind is not running: its CRD or a right that Fescue needs is missing"
		return o
	default:
		o.Reason, o.Message = NotFound, "no object with that name exists in the namespace of the Pod"
		return o
	}
	if err := s.refresh(); err != nil {
		panic(fmt.Sprintf("a Pod that was parsed before: %v", err)) // cannot happen
	}
	s.token = tokenMount(s.pod)
	operations, edits := len(s.patch), len(s.edits)
	rejected := s.fields(s.pod, r.injection.add, pod)
	if rejected == nil && len(s.edits) > edits {
		rejected = r.injection.forbidden
	}
	if rejected == nil && len(s.edits) > edits {
		spec := s.pod.Member("spec")
		if rejected = r.injection.needs.check(spec, s.claims); rejected == nil &&
			(r.injection.needs.resources || spec.Member("resources").IsSet()) {
			rejected = checkResources(apply(s.result.text, s.edits))
		}
		if rejected == nil && r.injection.rules.decides(s.pod) {
			rejected = checkRules(s.result.text, apply(s.result.text, s.edits), s.claims)
		}
		o.Reason = Injected
	}
	if rejected == nil {
		o.Generation = r.injection.generation
		return o
	}
	// Add nothing: half a sidecar would be worse than none.
	s.path, s.patch, s.edits = s.path[:0], s.patch[:operations], s.edits[:edits]
	if i := s.wasInjected(r.id); i >= 0 && rejected.reason == Conflict {
		// It conflicts with what an earlier call injected: from an older generation, or
		// changed by others since.
		o.Reason, o.Generation = Present, s.former[i].generation
		return o
	}
	o.Reason, o.Message = rejected.reason, rejected.message()
	return o
}

// writeStatus sets the annotation, unless it is the same already: a needless patch makes the API
// server call other webhooks again.
func (s *state) writeStatus() error {
	metadata := s.pod.Member("metadata")
	if len(s.edits) > 0 && !metadata.Member("annotations").Is('{') {
		// The edits may add annotations.
		if err := s.refresh(); err != nil {
			return err
		}
		metadata = s.pod.Member("metadata")
	}
	entries := make([]entry, 0, len(s.result.Outcomes)+len(s.former))
	excess := 0
	for _, o := range s.result.Outcomes {
		if o.Reason == TooMany {
			if excess++; excess > maxObjects {
				continue // they could fill the annotation
			}
		}
		entries = append(entries, o.entry())
	}
	want := statusText(withFormer(entries, s.former))
	if metadata.Member("annotations").Member(StatusAnnotation).Equals(string(want)) {
		return nil
	}
	return s.putStatus(jsontext.AppendQuoted(nil, want))
}

var statusPath = []string{"metadata", "annotations", StatusAnnotation}

// putStatus sets the annotation and adds the missing objects around it.
func (s *state) putStatus(text []byte) error {
	object := s.pod
	for n, name := range statusPath {
		s.push(name)
		member, around := object.Member(name), statusPath[n+1:]
		if len(around) > 0 && member.Is('{') {
			object = member
			continue
		}
		if len(around) > 0 && member.IsSet() {
			return fmt.Errorf("is not a Pod: %s is not an object", s.path)
		}
		for _, inner := range slices.Backward(around) {
			text = slices.Concat([]byte{'{'}, jsontext.AppendQuoted(nil, inner), []byte{':'}, text, []byte{'}'})
		}
		s.put(object, member, jsontext.AppendQuoted(nil, name), text)
		break
	}
	return nil
}
