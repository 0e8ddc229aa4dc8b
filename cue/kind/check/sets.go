package check

import (
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

// set reports a set that exists only under a condition, and what the members of an ordered one share though it reads
// index. Objects would be Stalled for both, some only after a first member was created.
func (c *Checker) set(child *checkedChild) {
	replicas := child.body.Fields["replicas"]
	if replicas == nil {
		return
	}
	if !c.isFixed(child.name) {
		instead := "write replicas: 0 for none"
		if child.name == "" {
			instead = `write a child for each member, as in for i in list.Range(0, N, 1) {"a-\(i)": …}`
		}
		c.Report(mistake.ConditionalSet, replicas.Node,
			"%s.replicas: a set must not be in an if or a for over what objects have: %s", child.path, instead)
		return
	}
	if !c.kind.Sets[child.name].Ordered {
		return
	}
	c.shared(child.template, child.path+".template.", "apiVersion", "kind")
	if metadata := child.template.Fields["metadata"]; metadata != nil {
		c.shared(c.Gather(metadata.Parts), child.path+".template.metadata.", "name", "namespace")
	}
}

// isFixed reports whether every object has a set of a name; that of a computed name may be any that no other child has.
func (c *Checker) isFixed(name string) bool {
	if _, isSet := c.kind.Sets[name]; name != "" {
		return isSet
	}
	for set := range c.kind.Sets {
		if _, isNamed := c.Children[set]; !isNamed {
			return true
		}
	}
	return false
}

// shared reports fields of a template that read index, or that an if has which does.
func (c *Checker) shared(s *infer.Structure, path string, names ...string) {
	for _, name := range names {
		field := s.Fields[name]
		if field == nil {
			continue
		}
		before := c.numbered
		for _, p := range field.Parts {
			c.Quietly(func() {
				c.Infer(p)
				for _, condition := range p.Conditions {
					c.Infer(p.With(condition))
				}
			})
		}
		if c.numbered == before {
			continue
		}
		hint := "it is the same for all members of a set"
		if name == "name" {
			hint = "Fescue appends the index to the name"
		}
		c.Report(mistake.IndexInIdentity, field.Node, "%s%s: must not read index: %s", path, name, hint)
	}
}
