package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// childPods are the Pods that a child has, as far as they are the same for all objects.
type childPods struct {
	labels map[string]labelValue
	ports  []string // their names
	// hasAllLabels and hasAllPorts mean that there are no others.
	hasAllLabels, hasAllPorts bool
}

// selectors are where types of children select Pods of other children.
var selectors = map[string][]string{"Service": {"selector"}, "PodDisruptionBudget": {"selector", "matchLabels"}}

// selections checks that Services and budgets of a kind select Pods of its other children, and that
// these have the ports that the Services name, if all Pods that it may create are known.
func (c *Checker) selections(children []*checkedChild) {
	pods := c.podsOf(children)
	if len(pods) == 0 || c.unknownChildren {
		return
	}
	for _, child := range children {
		way, ok := selectors[child.gvk.Kind]
		if !ok {
			continue
		}
		spec := c.structureIn(child.template, "spec")
		selector, _ := c.labelsAt(spec, way...)
		if len(selector) == 0 {
			continue
		}
		key, why := "", ""
		var selected []childPods
		for _, p := range pods {
			k, w := mismatchOf(selector, p.labels, p.hasAllLabels)
			if k == "" {
				selected = append(selected, p)
			}
			if key == "" {
				key, why = k, w
			}
		}
		switch path := child.path + ".template.spec."; {
		case len(selected) == 0:
			c.report(spec.Fields["selector"].Node, "%s%s.%s: no child has such Pods: they %s", path, strings.Join(way, "."), key, why)
		case child.gvk.Kind == "Service":
			c.targetPorts(spec, selected, path+"ports")
		}
	}
}

// podsOf returns the Pods of children; nil if not all are known.
func (c *Checker) podsOf(children []*checkedChild) (pods []childPods) {
	for _, child := range children {
		if !child.known || !isBuiltIn(child.gvk) {
			return nil
		}
		way, ok := podTemplates[child.gvk.Kind]
		if !ok {
			continue
		}
		var p childPods
		p.labels, p.hasAllLabels = c.labelsAt(child.template, append(slices.Clone(way), "metadata", "labels")...)
		p.ports, p.hasAllPorts = c.podPorts(c.structureIn(child.template, way...))
		pods = append(pods, p)
	}
	return pods
}

// podPorts returns the names of the ports of the containers of a Pod; all is false if there may be
// others. A Pod with annotations may get containers by them.
func (c *Checker) podPorts(template *Structure) (names []string, all bool) {
	pod, metadata := c.structureIn(template, "spec"), c.structureIn(template, "metadata")
	all = !template.isOpen() && !pod.isOpen() && !metadata.isOpen() && metadata.Fields["annotations"] == nil
	for _, list := range []string{"initContainers", "containers"} {
		containers, known := c.structuresIn(pod, list)
		all = all && known
		for _, container := range containers {
			ports, known := c.portsOf(container)
			names, all = append(names, ports...), all && known
		}
	}
	return names, all
}

// portsOf returns the names of the ports of a container; all is false if there may be others.
func (c *Checker) portsOf(container *Structure) (names []string, all bool) {
	ports, all := c.structuresIn(container, "ports")
	all = all && !container.isOpen()
	for _, port := range ports {
		name, known := c.constantOf(port, "name")
		if known {
			names = append(names, name)
		}
		all = all && !port.isOpen() && (known || port.Fields["name"] == nil)
	}
	return names, all
}

// structuresIn returns the items of a list of structs; known is false if it may have others.
func (c *Checker) structuresIn(s *Structure, name string) (items []*Structure, known bool) {
	m := s.Fields[name]
	if m == nil {
		return nil, true
	}
	for _, p := range m.Parts {
		list, ok := p.expr.(*ast.ListLit)
		if !ok {
			return nil, false
		}
		for _, item := range c.items(p, list) {
			items = append(items, c.Gather([]Part{item}))
		}
	}
	return items, true
}

// targetPorts reports ports of a Service that lead to a port by a name that no Pod has.
func (c *Checker) targetPorts(service *Structure, pods []childPods, path string) {
	var known []string
	for _, p := range pods {
		if !p.hasAllPorts {
			return
		}
		known = append(known, p.ports...)
	}
	ports, _ := c.structuresIn(service, "ports")
	for i, port := range ports {
		c.mustParse(port, "targetPort", fmt.Sprintf("%s[%d]", path, i), func(name string) error {
			if slices.Contains(known, name) {
				return nil
			}
			return fmt.Errorf("the Pods that the Service selects have no port called %q%s", name, portHint(name, known))
		})
	}
}

// portHint says what to write instead of the name of a port that does not exist.
func portHint(name string, known []string) string {
	if _, err := strconv.Atoi(name); err == nil {
		return ": write " + name
	}
	if near := types.DidYouMean(name, known); near != "" {
		return near
	}
	if len(known) == 0 {
		return ", since none has a name: add name: " + strconv.Quote(name) + " to a port, or write its number"
	}
	return ": there are " + strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", ")
}
