package admission

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Fescue reads what a behaviour names with its own rights, and the behaviour may show it: in a child, in
// the status, or by what it does. So the author of an object needs the right to read it.

// needsOfLookups lists what the author needs for what is read for an object of a kind: to get the objects that are
// read by name, and to list those that are selected.
func needsOfLookups(k *kind.Kind, lookups []kind.Lookup) (needs []need) {
	for _, l := range lookups {
		isFree := func(facts kind.LookupFacts) bool { return facts.Name == l.Name && isFreeToRead(k, facts) }
		switch {
		case len(l.Absent) > 0: // nothing is read
		case slices.ContainsFunc(k.Lookups, isFree):
		case l.Selector != nil:
			needs = append(needs, need{verb: "list", of: l.Type, in: l.Namespace})
		default:
			needs = append(needs, need{verb: "get", of: l.Type, in: l.Namespace, name: l.ObjectName})
		}
	}
	return needs
}

// needsOfReads lists what the author needs for what objects of a kind read that do not exist yet, or are not valid. The
// names and namespaces that the kind computes are not known, and may be any.
func needsOfReads(k *kind.Kind) (needs []need) {
	for _, l := range k.Lookups {
		if isFreeToRead(k, l) {
			continue
		}
		n := need{verb: "get", of: l.Type, name: l.ObjectName}
		if l.IsSelection {
			n.verb = "list"
		}
		if l.Namespace != "" {
			n.in = new(l.ObjectNamespace)
		}
		needs = append(needs, n)
	}
	return needs
}

// isFreeToRead reports whether a self-service kind says which object is read, and not the object that is reconciled:
// the name is a constant, and so is the namespace, unless it is that of the object.
func isFreeToRead(k *kind.Kind, l kind.LookupFacts) bool {
	return k.IsSelfService && l.ObjectName != "" && (l.Namespace == "" || l.ObjectNamespace != "")
}

// needsOfReads lists what the author of the object needs for what the kind reads for it. Nothing is read for an object
// with errors, or for which that cannot be told. But it may lose its errors without its author: by a label, or by
// another schema. What it reads then is not known.
func (s *state) needsOfReads() []need {
	checked := s.check().Stored()
	lookups, err := s.kind.LookupsOf(s.budget, checked.Object)
	if len(s.kind.Lookups) > 0 && (err != nil || len(checked.Errors) > 0) {
		return needsOfReads(s.kind)
	}
	return needsOfLookups(s.kind, lookups)
}

// places returns the namespaces of the children that the object may have. What is not known of an object in a
// namespace now may become known without its author.
func (s *state) places(namespace string) kind.Places {
	checked := s.check().Stored()
	if len(checked.Errors) > 0 {
		return s.kind.AnyPlaces(namespace)
	}
	object := maps.Clone(checked.Object)
	// one that is created may state none
	if metadata, ok := object["metadata"].(map[string]any); ok && namespace != "" {
		metadata = maps.Clone(metadata)
		metadata["namespace"], object["metadata"] = namespace, metadata
	}
	places, err := s.kind.PlacesOf(s.budget, object)
	if err != nil {
		return s.kind.AnyPlaces(namespace)
	}
	return places
}

// identity is the same for needs that are the same.
func (n need) identity() string {
	in := "own"
	if n.in != nil {
		in = fmt.Sprintf("%q", *n.in)
	}
	return fmt.Sprintf("%s %s %q in %s for %s", n.verb, n.of.GroupKind(), n.name, in, n.child)
}
