package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// Texts of users have marks, which nobody may find in what belongs to another object.
var marks = regexp.MustCompile(`mark\d+x`)

// marked gives texts in a spec a mark that nothing else has, where they stay valid, and returns the mark.
func (u user) marked(k *kind.Kind, object map[string]any) (mark string) {
	mark = fmt.Sprintf("mark%dx", len(u.marksOf))
	u.marksOf[mark] = ""
	if k.Target == nil && isValid(k, object) {
		u.addMark(mark, object["spec"], func() bool { return isValid(k, object) })
	}
	return mark
}

func (u user) addMark(mark string, value any, isRight func() bool) {
	fields, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, isText := fields[name].(string)
		if isText && u.random.IntN(2) == 0 {
			if fields[name] = text + mark; !isRight() {
				fields[name] = text
			}
		}
		u.addMark(mark, fields[name], isRight)
	}
}

// family knows which objects own which.
type family map[types.UID]*unstructured.Unstructured

// line returns the UIDs of an object and of those that own it, directly or not.
func (f family) line(object *unstructured.Unstructured) sets.Set[types.UID] {
	found := sets.New(object.GetUID())
	owners := []types.UID{types.UID(object.GetLabels()[labelOwner])}
	for _, reference := range object.GetOwnerReferences() {
		owners = append(owners, reference.UID)
	}
	for _, uid := range owners {
		if owner := f[uid]; owner != nil && !found.Has(uid) {
			found = found.Union(f.line(owner))
		}
		found.Insert(uid)
	}
	return found
}

// stolen returns marks in a text about an object that are not those of its line, or of what it owns.
func (h *history) stolen(f family, object *unstructured.Unstructured, text, before string) (found []string) {
	known := sets.New(marks.FindAllString(before, -1)...)
	for _, mark := range marks.FindAllString(text, -1) {
		of := h.marksOf[mark]
		other := f[of]
		if known.Has(mark) || other == nil || f.line(object).Has(of) || f.line(other).Has(object.GetUID()) {
			continue
		}
		found = append(found, fmt.Sprintf("%s has %s, which is of %s: %.300s", idOf(object), mark, idOf(other), text))
	}
	return found
}

// mixed returns what operators have written of one object into another, or into its Events.
func (h *history) mixed(changes []apiserver.Change) (found []string) {
	f := make(family)
	for _, c := range changes {
		f[c.Object().GetUID()] = c.Object()
	}
	for _, k := range h.Kinds {
		for _, l := range k.Lookups {
			if slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool { return k.GroupVersionKind == l.Type }) {
				return nil // it may show what it reads
			}
		}
	}
	for _, c := range changes {
		if isByOperator(c) && c.After != nil {
			found = append(found, h.stolen(f, c.After, text(c.After), text(c.Before))...)
		}
	}
	for _, e := range h.events {
		if of := f[e.of]; of != nil {
			found = append(found, h.stolen(f, of, e.text, "")...)
		}
	}
	return found
}

// text returns an object as text; nil is none.
func text(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	encoded, err := json.Marshal(object.Object)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(encoded)
}
