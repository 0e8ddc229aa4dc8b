package manifest

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Location is the place of a field, or of the innermost existing field around it.
type Location struct {
	// Found reports whether the field itself exists.
	Found bool
	// Key is the field's name. For an item of a list, and for the object, it is Value.
	Key Place
	// Value is the field's value.
	Value Place
}

// Place is the place of a name or a value.
type Place struct {
	Position
	// Surprise explains how the API machinery reads a plain scalar that looks like something
	// else; it is empty for all others.
	Surprise string
}

// Locate finds a field by the path in a field.Error. Names in such a path are not quoted and
// may contain dots and brackets, so the path is matched against the existing fields: of
// several ways to read it, the one that leads furthest counts.
func (o Object) Locate(path string) Location {
	m := match{key: o.node, value: o.node}.find(o.document, path)
	return Location{Found: m.used == len(path), Key: o.place(m.key), Value: o.place(m.value)}
}

// Surprise explains how the API machinery reads the name or the value that a field.Error is about; it is empty
// unless it reads something else than people do.
func (o Object) Surprise(err *field.Error) string {
	location := o.Locate(err.Field)
	value := location.Value.Surprise
	if err.Type == field.ErrorTypeForbidden { // about the name alone
		value = ""
	}
	switch {
	case !location.Found:
		return ""
	case location.Key.Surprise == "" || location.Key.Surprise == value:
		return value
	case value == "":
		return location.Key.Surprise
	}
	return location.Key.Surprise + "; " + value
}

// Explain adds the surprises to the field errors in the aggregate that err is. Other errors stay as they are.
func (o Object) Explain(err error) error {
	aggregate, ok := errors.AsType[utilerrors.Aggregate](err)
	if !ok {
		return err
	}
	explained := slices.Clone(aggregate.Errors())
	for i, e := range explained {
		if of, ok := errors.AsType[*field.Error](e); ok {
			if surprise := o.Surprise(of); surprise != "" {
				explained[i] = fmt.Errorf("%w; %s", e, surprise)
			}
		}
	}
	return utilerrors.NewAggregate(explained)
}

func (o Object) place(node *yaml.Node) Place {
	return Place{Position: o.document.position(node), Surprise: surprise(node)}
}

// match is a field to which the first used bytes of a path lead.
type match struct {
	key, value *yaml.Node
	used       int
}

// find continues from m as far as path leads.
func (m match) find(d *document, path string) match {
	best, rest := m, path[m.used:]
	switch node := target(m.value); node.Kind {
	case yaml.SequenceNode:
		if i, length := indexAt(rest); length > 0 && i < len(node.Content) {
			item := node.Content[i]
			best = match{item, item, m.used + length}.find(d, path)
		}
	case yaml.MappingNode:
		seen := make(map[string]bool)
		for key, value := range fields(node) {
			name := d.names[key]
			length := nameAt(rest, name, m.used == 0)
			if length == 0 || seen[name] {
				continue
			}
			seen[name] = true
			if found := (match{key, value, m.used + length}).find(d, path); found.used > best.used {
				best = found
			}
		}
	}
	return best
}

// fields yields the keys and values of a mapping with those that << merges in. Of two with
// one name, the API machinery takes the one that is yielded first. Given a sequence, it
// yields the fields of each mapping in it.
func fields(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) { eachField(node, yield) }
}

// eachField is fields; it returns false once yield does.
func eachField(node *yaml.Node, yield func(key, value *yaml.Node) bool) bool {
	node = target(node)
	if node.Kind == yaml.SequenceNode {
		for _, mapping := range node.Content {
			if !eachField(mapping, yield) {
				return false
			}
		}
		return true
	}
	for i := len(node.Content) - 2; i >= 0; i -= 2 {
		key, value := node.Content[i], node.Content[i+1]
		if isMerge(key) {
			if !eachField(value, yield) {
				return false
			}
		} else if !yield(key, value) {
			return false
		}
	}
	return true
}

// nameAt returns the length of the step to the field name at the beginning of path, or 0 if
// path begins with another field. A step is .name, without the dot at the beginning of the
// whole path, or [name] for keys of maps and the empty name.
func nameAt(path, name string, first bool) int {
	step := "." + name
	if first {
		step = name
	}
	for _, step := range []string{step, "[" + name + "]"} {
		if rest, ok := strings.CutPrefix(path, step); ok && step != "" &&
			(rest == "" || rest[0] == '.' || rest[0] == '[') {
			return len(step)
		}
	}
	return 0
}

var indexStep = regexp.MustCompile(`^\[(\d+)\]`)

// indexAt returns the index with which path begins and how long that step is, or 0.
func indexAt(path string) (index, length int) {
	m := indexStep.FindStringSubmatch(path)
	if m == nil {
		return 0, 0
	}
	index, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, 0
	}
	return index, len(m[0])
}
