package inject

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// maxNames is how many names one annotation may list; the others are ignored. More would only
// fill StatusAnnotation.
const maxNames = 64

// maxName is the length of the longest name of an object, by IsDNS1123Subdomain.
const maxName = 253

// request is an injection that a Pod asks for. Without an injection, no such object exists, or it
// is not known because its kind is not running.
type request struct {
	object      Object
	id          string
	injection   *Injection
	unavailable bool
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
			requests = append(requests, request{object: c.object, id: c.id, injection: c})
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
	slices.SortFunc(requests, func(a, b request) int { return strings.Compare(a.id, b.id) })
	return slices.CompactFunc(requests, func(a, b request) bool { return a.id == b.id })
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
