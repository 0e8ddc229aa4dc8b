package inject

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxNames is how many names one annotation may list; the others are ignored. More would only
// fill StatusAnnotation.
const maxNames = 64

// maxObjects is how many objects are injected into one Pod. Each may fit only after another one, so
// the time grows with the square of their number.
const maxObjects = maxNames

// maxName is the length of the longest name of an object, by IsDNS1123Subdomain.
const maxName = 253

// request is an injection that a Pod asks for. Without an injection, no such object exists, or it
// is not known because its kind is not running.
type request struct {
	object      Object
	id          string
	injection   *Injection
	unavailable bool
	selected    bool // by labels; the Pod does not name the object
}

// wanted returns the objects that a Pod asks for by annotations or that select it by its labels,
// each once, sorted by kind and name.
func (i *Injector) wanted(metadata value, namespace string, candidates []*Injection) []request {
	var requests []request
	annotations := metadata.Member("annotations")
	for _, k := range i.kinds {
		names := annotations.Member(k.InjectAnnotation)
		if !names.Is('"') {
			continue
		}
		gk := k.GroupVersionKind.GroupKind()
		for name := range Names(names.String()) {
			r := requestFor(Object{gk, name}, namespace, candidates)
			r.unavailable = slices.Contains(i.unavailable, gk)
			requests = append(requests, r)
		}
	}
	podLabels := labelsOf{metadata.Member("labels")}
	for _, c := range candidates {
		if c.namespace == namespace && c.selector != nil && c.selector.Matches(podLabels) {
			requests = append(requests, request{object: c.object, id: c.id, injection: c, selected: true})
		}
	}
	return sorted(requests)
}

// Names returns the names in the value of an opt-in annotation.
func Names(annotation string) iter.Seq[string] {
	return func(yield func(string) bool) {
		n := 0
		for name := range strings.SplitSeq(annotation, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if n++; n > maxNames || !yield(name) {
				return
			}
		}
	}
}

// sorted sorts requests by kind and name and removes duplicates.
func sorted(requests []request) []request {
	if len(requests) < 2 {
		return requests
	}
	slices.SortStableFunc(requests, byID) // of two, the one that the Pod names comes first
	return slices.CompactFunc(requests, func(a, b request) bool { return a.id == b.id })
}

func byID(a, b request) int { return strings.Compare(a.id, b.id) }

// limited returns the requests that are considered, and those that are too many: of the objects that
// only select the Pod and were not injected before, the last ones.
func (s *state) limited(requests []request) (considered, excess []request) {
	if len(requests) <= maxObjects {
		return requests, nil
	}
	less := func(r request) int {
		if !r.selected || slices.Contains(s.injected, r.id) || s.wasInjected(r.id) >= 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(requests, func(a, b request) int { return cmp.Compare(less(a), less(b)) })
	considered, excess = slices.Clone(requests[:maxObjects]), requests[maxObjects:]
	return sorted(considered), sorted(excess)
}

// wasInjected returns the index in s.former of an object that was injected; -1 is none.
func (s *state) wasInjected(id string) int {
	return slices.IndexFunc(s.former, func(e entry) bool { return e.id == id && e.reason == "" })
}

// skipAll adds the outcomes of requests that are too many.
func (s *state) skipAll(excess []request) {
	for _, r := range excess {
		s.result.Outcomes = append(s.result.Outcomes, Outcome{
			Object: r.object, Reason: TooMany,
			Message: fmt.Sprintf("at most %d objects are injected into one Pod, those that it names first", maxObjects),
		})
	}
	slices.SortStableFunc(s.result.Outcomes, func(a, b Outcome) int { return strings.Compare(a.String(), b.String()) })
}

// withInjected adds the former requests that were injected: the labels that were injected since
// may prevent a selector from matching.
func withInjected(requests, former []request, injected []string) []request {
	for _, r := range former {
		if slices.Contains(injected, r.id) {
			requests = append(requests, r)
		}
	}
	return sorted(requests)
}

// requestFor returns the request for the object that a Pod names.
func requestFor(object Object, namespace string, candidates []*Injection) request {
	for _, c := range candidates {
		if c.object == object && c.namespace == namespace {
			return request{object: object, id: c.id, injection: c}
		}
	}
	object.Name = strings.ToValidUTF8(object.Name[:min(len(object.Name), maxName)], "?")
	return request{object: object, id: object.String()}
}

// labelsOf lets selectors read the labels of a Pod in its text.
type labelsOf struct{ value }

func (l labelsOf) Has(label string) bool { return l.Member(label).Is('"') }

func (l labelsOf) Get(label string) string { return l.Member(label).String() }

func (l labelsOf) Lookup(label string) (value string, exists bool) {
	return l.Get(label), l.Has(label)
}

// withFormer adds the entries of a Pod's annotation for objects that were injected and that it
// does not ask for any more.
func withFormer(entries, former []entry) []entry {
	for _, f := range former {
		if f.reason == "" && !slices.ContainsFunc(entries, func(e entry) bool { return e.id == f.id }) {
			entries = append(entries, f)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	return entries
}
