package inject

import (
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

// Without is the same injector for when the objects of some kinds cannot be known.
func (i *Injector) Without(kinds ...schema.GroupKind) *Injector {
	without := *i
	without.unavailable = kinds
	return &without
}

// Excluded lists the namespaces that nothing is injected in.
func (i *Injector) Excluded() []string { return slices.Clone(i.excluded) }

// Result is what came of one Pod.
type Result struct {
	// Patch is an RFC 6902 patch of the Pod, of additions alone; nil if there is nothing
	// to add. The only member that it replaces is StatusAnnotation.
	Patch []byte
	// Outcomes are those of all objects that the Pod asks for or is selected by, sorted by
	// object; with none, the Pod is none of our business.
	Outcomes []Outcome

	text  []byte
	edits []edit
}

// Warnings are for whoever creates the Pod: one for each object that is not injected.
func (r *Result) Warnings() []string {
	var warnings []string
	for _, o := range r.Outcomes {
		if !o.Done() {
			warnings = append(warnings, fmt.Sprintf("%s %q is not injected: %s", o.Kind, o.Name, o.Message))
		}
	}
	return warnings
}

// Pod is the Pod with the patch applied. It shares memory with the text given to Inject.
func (r *Result) Pod() []byte {
	if len(r.edits) == 0 {
		return r.text
	}
	return apply(r.text, r.edits)
}

// mirrorAnnotation marks the Pods that kubelets make for static ones.
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Inject merges into a Pod what it asks for. The text is that of the Pod, or of a Pod
// template; it stays as it is and must not change while the result is used. namespace is
// that of the request: Pods that a controller makes have none of their own. Candidates of
// other namespaces are passed over. The error is for a text that is no Pod.
func (i *Injector) Inject(text []byte, namespace string, candidates []*Injection) (*Result, error) {
	s := &state{result: Result{text: text}}
	if err := s.read(); err != nil {
		return nil, err
	}
	defer func() { s.pod.Release() }() // the last one that was read
	requests := i.wanted(s.pod.Member("metadata"), namespace, candidates)
	if len(requests) == 0 {
		return &s.result, nil
	}
	if reason, why := i.skips(s.pod, namespace); reason != "" {
		for _, r := range requests {
			s.result.Outcomes = append(s.result.Outcomes, Outcome{Object: r.object, Reason: reason, Message: why})
		}
		return &s.result, nil
	}
	status := s.pod.Member("metadata").Member("annotations").Member(StatusAnnotation)
	s.former = readStatus(status.String())
	s.prepare(requests)
	for s.pass(requests) {
		// What was refused may fit now, and labels may have been added that a selector
		// matches: a second call would see that, so this one has to.
		if err := s.refresh(); err != nil {
			return nil, err
		}
		requests = withInjected(i.wanted(s.pod.Member("metadata"), namespace, candidates), requests, s.injected)
	}
	if err := s.writeStatus(); err != nil {
		return nil, err
	}
	if !s.annotationsFit() {
		if err := s.retract(text); err != nil {
			return nil, err
		}
	}
	if s.result.edits = s.edits; len(s.patch) > len("[") {
		s.patch[len(s.patch)-1] = ']' // where a comma was
		s.result.Patch = s.patch
	}
	return &s.result, nil
}

// skips says why nothing is injected into a Pod whatever it asks for.
func (i *Injector) skips(pod value, namespace string) (Reason, string) {
	switch {
	case pod.Member("metadata").Member("annotations").Member(mirrorAnnotation).IsSet():
		return MirrorPod, "the Pod mirrors a static one, which runs from a file of its node"
	case slices.Contains(i.excluded, namespace):
		return ExcludedNamespace, fmt.Sprintf("nothing is injected in the namespace %q", namespace)
	}
	return "", ""
}

// state is a Pod as far as it has come.
type state struct {
	merger
	result   Result
	pod      value   // of result.text, without the edits
	former   []entry // of the annotation that the Pod came with
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

// prepare makes room for what is usual, in three allocations instead of twenty.
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

// refresh brings the edits into the text.
func (s *state) refresh() error {
	if len(s.edits) == 0 {
		return nil
	}
	s.result.text, s.edits = apply(s.result.text, s.edits), s.edits[:0]
	s.pod.Release()
	return s.read()
}

// pass tries all requests, and says whether it has to be done again.
func (s *state) pass(requests []request) (again bool) {
	s.result.Outcomes = make([]Outcome, 0, len(requests))
	var refused, injected, metadata bool
	for _, r := range requests {
		o := s.try(r)
		s.result.Outcomes = append(s.result.Outcomes, o)
		refused = refused || !o.Done()
		if o.Reason == Injected && !slices.Contains(s.injected, r.id) {
			s.injected = append(s.injected, r.id)
			injected, metadata = true, metadata || r.injection.metadata
		}
	}
	return injected && (refused || metadata)
}

// try injects one object, or nothing of it.
func (s *state) try(r request) Outcome {
	o := Outcome{Object: r.object, Reason: Present}
	switch {
	case r.injection != nil:
	case r.unavailable:
		o.Reason, o.Message = Unavailable, "the kind is not run: its CRD or a right of Fescue is missing"
		return o
	default:
		o.Reason, o.Message = NotFound, "there is none of that name in the namespace of the Pod"
		return o
	}
	if err := s.refresh(); err != nil {
		panic(fmt.Sprintf("a Pod that was read before: %v", err)) // cannot be
	}
	s.token = tokenMount(s.pod)
	operations, edits := len(s.patch), len(s.edits)
	refused := s.fields(s.pod, r.injection.add, pod)
	if refused == nil && len(s.edits) > edits {
		refused = r.injection.forbidden
	}
	if refused == nil && len(s.edits) > edits {
		spec := s.pod.Member("spec")
		if refused = r.injection.needs.check(spec); refused == nil && (r.injection.needs.resources || spec.Member("resources").IsSet()) {
			refused = checkResources(apply(s.result.text, s.edits))
		}
		o.Reason = Injected
	}
	if slices.Contains(s.injected, r.id) {
		o.Reason = Injected // in an earlier pass
	}
	if refused == nil {
		o.Generation = r.injection.generation
		return o
	}
	// Nothing of it: half a sidecar would be worse than none.
	s.path, s.patch, s.edits = s.path[:0], s.patch[:operations], s.edits[:edits]
	if i := slices.IndexFunc(s.former, func(e entry) bool { return e.id == r.id && e.reason == "" }); i >= 0 && refused.reason == Conflict {
		// What is in the way is what an earlier call has injected: from an older
		// generation, or with what others have made of it since.
		o.Reason, o.Generation = Present, s.former[i].generation
		return o
	}
	o.Reason, o.Message = refused.reason, refused.message()
	return o
}

// writeStatus sets the annotation, unless it says the same already: a patch without need
// has the API server call other webhooks again.
func (s *state) writeStatus() error {
	metadata := s.pod.Member("metadata")
	if len(s.edits) > 0 && !metadata.Member("annotations").Is('{') {
		// They may be among what has been added.
		if err := s.refresh(); err != nil {
			return err
		}
		metadata = s.pod.Member("metadata")
	}
	entries := make([]entry, 0, len(s.result.Outcomes)+len(s.former))
	for _, o := range s.result.Outcomes {
		entries = append(entries, o.entry())
	}
	want := statusText(withFormer(entries, s.former))
	if metadata.Member("annotations").Member(StatusAnnotation).Equals(string(want)) {
		return nil
	}
	return s.putStatus(jsontext.AppendQuoted(nil, want))
}

var statusPath = []string{"metadata", "annotations", StatusAnnotation}

// putStatus sets the annotation, with the objects around it that are missing.
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
			return fmt.Errorf("is no Pod: %s is not an object", s.path)
		}
		for _, inner := range slices.Backward(around) {
			text = slices.Concat([]byte{'{'}, jsontext.AppendQuoted(nil, inner), []byte{':'}, text, []byte{'}'})
		}
		s.put(object, member, jsontext.AppendQuoted(nil, name), text)
		break
	}
	return nil
}
