package admission

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one step of an RFC 6902 patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// diff returns the operations that turn before into after, in the order of their paths. Nothing
// is removed: what after does not have stays. No operation depends on another, because each
// addition is complete.
func diff(before, after any) []operation {
	var d differ
	d.value(nil, before, after)
	slices.SortFunc(d.operations, func(a, b operation) int { return strings.Compare(a.Path, b.Path) })
	return d.operations
}

type differ struct{ operations []operation }

// place is where a value is. Most values are the same in both objects, so a path is only built
// for those that differ.
type place struct {
	in     *place
	name   string
	index  int
	inList bool // then index is set, not name
}

func (d *differ) value(at *place, before, after any) {
	switch after := after.(type) {
	case map[string]any:
		before, ok := before.(map[string]any)
		if !ok {
			break
		}
		for name, value := range after {
			if old, ok := before[name]; ok {
				d.value(&place{in: at, name: name}, old, value)
			} else {
				d.add("add", &place{in: at, name: name}, value)
			}
		}
		return
	case []any:
		before, ok := before.([]any)
		if !ok || len(before) != len(after) {
			break
		}
		for i := range after {
			d.value(&place{in: at, index: i, inList: true}, before[i], after[i])
		}
		return
	}
	if !reflect.DeepEqual(before, after) {
		d.add("replace", at, after)
	}
}

func (d *differ) add(op string, at *place, value any) {
	d.operations = append(d.operations, operation{op, at.pointer(), value})
}

// pointer returns the JSON pointer (RFC 6901) to a place.
func (p *place) pointer() string {
	if p == nil {
		return ""
	}
	if p.inList {
		return p.in.pointer() + "/" + strconv.Itoa(p.index)
	}
	return p.in.pointer() + "/" + pointerEscapes.Replace(p.name)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
