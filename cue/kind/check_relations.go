package kind

import (
	"encoding/base64"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// relations checks what the fields of a child have to do with each other, and texts of a form that no
// schema states: what the API server checks in addition, as far as it is the same for all objects.
func (c *checker) relations(child *checkedChild) {
	if !child.known {
		return
	}
	spec := c.structureIn(child.template, "spec")
	prefix := child.path + ".template."
	switch child.gvk.Kind {
	case "CronJob":
		if text, ok := c.constantOf(spec, "schedule"); ok {
			if _, err := ParseSchedule(text, ""); err != nil {
				c.report(c.valueNode(spec.fields["schedule"]), "%sspec.schedule: %v", prefix, err)
			}
		}
	case "Deployment":
		strategy := c.structureIn(spec, "strategy")
		if kind, _ := c.constantOf(strategy, "type"); kind == "Recreate" && strategy.fields["rollingUpdate"] != nil {
			c.report(strategy.fields["rollingUpdate"].node, "%sspec.strategy.rollingUpdate: cannot be set with the type Recreate: remove one of them", prefix)
		}
	case "Secret":
		data := c.structureIn(child.template, "data")
		for _, name := range data.order {
			text, ok := c.constantOf(data, name)
			if _, err := base64.StdEncoding.DecodeString(text); ok && err != nil {
				c.report(c.valueNode(data.fields[name]), "%sdata.%s: must be base64: write plain text in stringData", prefix, name)
			}
		}
	}
	c.volumes(child, prefix)
}

// volumes reports mounts of volumes that the Pods of a child do not have.
func (c *checker) volumes(child *checkedChild, prefix string) {
	way, ok := podTemplates[child.gvk.Kind]
	if !ok {
		return
	}
	path := append(slices.Clone(way), "spec")
	pod := child.template
	for _, name := range path {
		pod = c.structureIn(pod, name)
	}
	known, closed := c.namesOf(pod, "volumes")
	if child.gvk.Kind == "StatefulSet" {
		closed = closed && c.structureIn(child.template, "spec").fields["volumeClaimTemplates"] == nil
	}
	isInjected := child.gvk.Kind == "Pod" && c.structureIn(child.template, "metadata").fields["annotations"] != nil // perhaps
	if !closed || pod.isOpen() || isInjected {
		return
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range c.itemsOf(pod, list) {
			for _, mount := range c.itemsOf(c.gather([]part{container}), "volumeMounts") {
				s := c.gather([]part{mount})
				name, ok := c.constantOf(s, "name")
				if ok && !slices.Contains(known, name) {
					c.report(c.valueNode(s.fields["name"]), "%s%s.%s: no volume of the Pod is called %q%s", prefix, strings.Join(path, "."), list, name, types.DidYouMean(name, known))
				}
			}
		}
	}
}

// isOpen reports whether a structure may have fields that are not known.
func (s *structure) isOpen() bool { return s.open || s.mayHaveMore() }

// structureIn returns a field as a structure, which is empty if there is none.
func (c *checker) structureIn(s *structure, name string) *structure {
	if m := s.fields[name]; m != nil {
		return c.gather(slices.Clone(m.parts))
	}
	return c.gather(nil)
}

// itemsOf returns the items of a field that is one list.
func (c *checker) itemsOf(s *structure, name string) []part {
	m := s.fields[name]
	if m == nil || len(m.parts) != 1 {
		return nil
	}
	if list, ok := m.parts[0].expr.(*ast.ListLit); ok {
		return c.items(m.parts[0], list)
	}
	return nil
}

// namesOf returns the names of the items of a list; closed is false if there may be others.
func (c *checker) namesOf(s *structure, name string) (names []string, closed bool) {
	m := s.fields[name]
	if m == nil {
		return nil, true
	}
	for _, p := range m.parts {
		list, ok := p.expr.(*ast.ListLit)
		if !ok {
			return nil, false
		}
		for _, item := range c.items(p, list) {
			text, ok := c.constantOf(c.gather([]part{item}), "name")
			if !ok {
				return nil, false
			}
			names = append(names, text)
		}
	}
	return names, true
}

// valueNode returns the place of the value of a field.
func (c *checker) valueNode(m *member) ast.Node {
	if len(m.parts) == 1 {
		return m.parts[0].node()
	}
	return m.node
}

// loopNames reports children in a loop whose name is that of its variable: all of them are one child.
func (c *checker) loopNames(owner *structure, prefix string) {
	children := owner.fields["children"]
	if children == nil {
		return
	}
	for _, p := range children.parts {
		literal, ok := p.expr.(*ast.StructLit)
		if !ok {
			continue
		}
		for _, declaration := range literal.Elts {
			loop, ok := declaration.(*ast.Comprehension)
			if !ok {
				continue
			}
			c.loopName(p, loop, prefix)
		}
	}
}

func (c *checker) loopName(p part, loop *ast.Comprehension, prefix string) {
	body, ok := loop.Value.(*ast.StructLit)
	if !ok {
		return
	}
	var variables []string
	for _, clause := range loop.Clauses {
		if clause, ok := clause.(*ast.ForClause); ok && clause.Key != nil {
			variables = append(variables, clause.Key.Name)
		}
		if clause, ok := clause.(*ast.ForClause); ok && clause.Value != nil {
			variables = append(variables, clause.Value.Name)
		}
	}
	for _, declaration := range body.Elts {
		field, ok := declaration.(*ast.Field)
		if !ok || field.Constraint != token.ILLEGAL {
			continue
		}
		if label, ok := field.Label.(*ast.Ident); ok && slices.Contains(variables, label.Name) {
			c.report(p.with(label).node(), "%schildren.%s: is one child of this name, whatever the variable is: write (%[2]s) to name each by the variable", prefix, label.Name)
		}
	}
}
