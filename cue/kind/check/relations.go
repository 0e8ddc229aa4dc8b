package check

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	corev1 "k8s.io/api/core/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// relations checks what the fields of a child have to do with each other, and texts of a form that no
// schema states: what the API server checks in addition, as far as it is the same for all objects.
func (c *Checker) relations(child *checkedChild) {
	if !child.known {
		return
	}
	prefix := child.path + ".template."
	if way, ok := podTemplates[child.gvk.Kind]; ok {
		c.pod(child, way, prefix)
	}
	spec := c.structureIn(child.template, "spec")
	switch child.gvk.Kind {
	case "CronJob":
		c.mustParse(spec, "schedule", prefix+"spec", func(text string) error {
			_, err := kind.ParseSchedule(text, "")
			return err
		})
	case "Deployment":
		c.rollout(spec, prefix+"spec")
	case "HorizontalPodAutoscaler":
		c.scaler(spec, prefix+"spec")
	case "NetworkPolicy":
		c.addresses(spec, prefix+"spec")
	case "PersistentVolumeClaim":
		c.claim(spec, prefix+"spec")
	case "PodDisruptionBudget":
		c.onlyOne(spec, prefix+"spec", "minAvailable", "maxUnavailable")
		c.share(spec, "minAvailable", prefix+"spec")
		c.share(spec, "maxUnavailable", prefix+"spec")
	case "Secret":
		data := c.structureIn(child.template, "data")
		for _, name := range data.Order {
			c.mustParse(data, name, prefix+"data", func(text string) error {
				if _, err := base64.StdEncoding.DecodeString(text); err != nil {
					return errors.New("must be base64: write plain text in stringData")
				}
				return nil
			})
		}
	case "Service":
		if child.gvk.Group == "" { // not that of Knative
			c.externalName(spec, prefix+"spec")
		}
	}
}

// mustParse reports a text that is known and wrong.
func (c *Checker) mustParse(s *Structure, name, path string, parse func(string) error) {
	text, ok := c.constantOf(s, name)
	if !ok {
		return
	}
	if err := parse(text); err != nil {
		c.report(c.valueNode(s.Fields[name]), "%s.%s: %v", path, name, err)
	}
}

// onlyOne reports two fields of which the API server takes one. A field that an if may drop is none.
func (c *Checker) onlyOne(s *Structure, path string, names ...string) {
	var set []string
	for _, name := range names {
		if m := s.Fields[name]; m != nil && m.certain {
			set = append(set, name)
		}
	}
	if len(set) > 1 {
		c.report(s.Fields[set[1]].Node, "%s.%s: cannot be set together with %s: remove one of them", path, set[1], set[0])
	}
}

// rollout checks how a Deployment replaces its Pods.
func (c *Checker) rollout(spec *Structure, path string) {
	strategy := c.structureIn(spec, "strategy")
	path += ".strategy.rollingUpdate"
	if kind, _ := c.constantOf(strategy, "type"); kind == "Recreate" && strategy.Fields["rollingUpdate"] != nil {
		c.report(strategy.Fields["rollingUpdate"].Node, "%s: cannot be set with the type Recreate: remove one of them", path)
	}
	update := c.structureIn(strategy, "rollingUpdate")
	for _, name := range []string{"maxSurge", "maxUnavailable"} {
		c.share(update, name, path)
	}
}

// share checks a field that is a number or a percentage: its type allows any string.
func (c *Checker) share(s *Structure, name, path string) {
	c.mustParse(s, name, path, func(text string) error {
		if len(validation.IsValidPercent(text)) == 0 {
			return nil
		}
		return fmt.Errorf("%q must be a number, or a percentage like %q", text, "25%")
	})
	m := s.Fields[name]
	if m == nil || len(m.Parts) != 1 {
		return
	}
	p := m.Parts[0]
	v := c.infer(p)
	if v.Kinds() != types.String || v.literal != nil || v.isType || len(v.alternatives) > 0 || len(v.t.Enum) > 0 {
		return
	}
	path, source := path+"."+name, syntax.SourceOf(p.expr)
	if isInterpolation(p.expr) {
		const unknown = "?"
		text, _, ok := c.text(p, func(Value) string { return unknown })
		if ok && !strings.HasSuffix(text, "%") && !strings.HasSuffix(text, unknown) {
			c.report(p.node(), "%s: %s is no percentage, and the API server takes only a number or a percentage: end it in %%", path, source)
		}
		return
	}
	instead := fmt.Sprintf(`write strconv.Atoi(%s), or "\(%[1]s)%%"`, source)
	isOfNames := strings.HasPrefix(v.path, behaviour.ObjectName+".metadata.") && !strings.HasPrefix(v.path, behaviour.ObjectName+".metadata.annotations.")
	if isOfNames { // a label or a name has no %
		c.report(p.node(), "%s: %s is no percentage, and the API server takes only a number or a percentage: %s", path, source, instead)
		return
	}
	c.advice = append(c.advice, kind.Advice{
		Field: path, Position: syntax.PositionOf(p.node()),
		Text: fmt.Sprintf(`%s: the API server takes only a number or a percentage like "25%%", and %s may be another string: %s, unless it is one`, path, source, instead),
	})
}

// scaler checks the bounds and the target of a HorizontalPodAutoscaler.
func (c *Checker) scaler(spec *Structure, path string) {
	least, okLeast := c.literalIn(spec, "minReplicas").(int64)
	most, okMost := c.literalIn(spec, "maxReplicas").(int64)
	if okLeast && okMost && least > most {
		c.report(c.valueNode(spec.Fields["minReplicas"]), "%s.minReplicas: %d is more than maxReplicas, %d", path, least, most)
	}
	target := c.structureIn(spec, "scaleTargetRef")
	apiVersion, okVersion := c.constantOf(target, "apiVersion")
	name, okName := c.constantOf(target, "kind")
	if okVersion && okName {
		if _, _, err := c.types.Find(apischema.FromAPIVersionAndKind(apiVersion, name)); err != nil {
			c.report(target.Fields["apiVersion"].Node, "%s.scaleTargetRef: %v", path, err)
		}
	}
	metrics, _ := c.structuresIn(spec, "metrics")
	for i, metric := range metrics {
		for _, source := range metric.Order {
			kinds := []string{"AverageValue", "Utilization", "Value"}
			c.mustParse(c.structureIn(metric, source, "target"), "type", fmt.Sprintf("%s.metrics[%d].%s.target", path, i, source), func(text string) error {
				if slices.Contains(kinds, text) {
					return nil
				}
				return fmt.Errorf("%q must be one of %s%s", text, strings.Join(kinds, ", "), types.DidYouMean(text, kinds))
			})
		}
	}
}

// addresses checks the ranges of addresses of a NetworkPolicy.
func (c *Checker) addresses(spec *Structure, path string) {
	for direction, field := range map[string]string{"ingress": "from", "egress": "to"} {
		rules, _ := c.structuresIn(spec, direction)
		for i, rule := range rules {
			peers, _ := c.structuresIn(rule, field)
			for j, peer := range peers {
				c.mustParse(c.structureIn(peer, "ipBlock"), "cidr", fmt.Sprintf("%s.%s[%d].%s[%d].ipBlock", path, direction, i, field, j), func(text string) error {
					if _, err := netip.ParsePrefix(text); err != nil {
						return fmt.Errorf("%q is not a range of addresses like \"10.0.0.0/8\"", text)
					}
					return nil
				})
			}
		}
	}
}

// claim checks that a PersistentVolumeClaim states what the API server requires, if all of it is known.
func (c *Checker) claim(spec *Structure, path string) {
	if !spec.isStruct || spec.isOpen() {
		return
	}
	resources := c.structureIn(spec, "resources")
	requests := c.structureIn(resources, "requests")
	if requests.Fields["storage"] == nil && !resources.isOpen() && !requests.isOpen() {
		c.report(spec.literals[0], "%s.resources.requests.storage: is missing: Kubernetes requires the size of a claim, as in \"1Gi\"", path)
	}
	if spec.Fields["accessModes"] == nil {
		c.report(spec.literals[0], "%s.accessModes: is missing: Kubernetes requires it, as in [\"ReadWriteOnce\"]", path)
	}
}

// externalName checks that a Service that stands for a name has one, if all its fields are known.
func (c *Checker) externalName(spec *Structure, path string) {
	name := spec.Fields["externalName"]
	if text, _ := c.constantOf(spec, "type"); text != string(corev1.ServiceTypeExternalName) || spec.isOpen() || name != nil && !name.Constraint {
		return
	}
	c.report(c.valueNode(spec.Fields["type"]),
		"%s.externalName: is missing: Kubernetes requires it with the type ExternalName: write the DNS name to resolve to, as in \"db.example.com\", or another type", path)
}

// literalIn returns the value of a field that is the same for all objects, or nil.
func (c *Checker) literalIn(s *Structure, name string) any {
	m := s.Fields[name]
	if m == nil {
		return nil
	}
	return c.Unified(slices.Clone(m.Parts)).literal
}

// isOpen reports whether a structure may have fields that are not known.
func (s *Structure) isOpen() bool { return s.open || s.mayHaveMore() }

// structureIn returns the field at a path as a structure, which is empty if there is none.
func (c *Checker) structureIn(s *Structure, path ...string) *Structure {
	for _, name := range path {
		var parts []Part
		if m := s.Fields[name]; m != nil {
			parts = slices.Clone(m.Parts)
		}
		s = c.Gather(parts)
	}
	return s
}

// valueNode returns the place of the value of a field.
func (c *Checker) valueNode(m *Member) ast.Node {
	if len(m.Parts) == 1 {
		return m.Parts[0].node()
	}
	return m.Node
}

// loopNames reports children in a loop whose name is that of its variable: all of them are one child.
func (c *Checker) loopNames(owner *Structure, prefix string) {
	children := owner.Fields["children"]
	if children == nil {
		return
	}
	for _, p := range children.Parts {
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

func (c *Checker) loopName(p Part, loop *ast.Comprehension, prefix string) {
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
