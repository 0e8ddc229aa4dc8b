package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// contract compares a definition with those of the contract, by names alone: CUE reports a field that the contract does
// not have as well, but suggests nothing, and some only once their values are known.
type contract struct {
	*infer.Reader
	definitions *build.Instance
}

func contractOf(r *infer.Reader, pkg *syntax.Package) *contract {
	r.Forget() // without types, the rest cannot be told
	return &contract{r, pkg.Rules.Contract}
}

// OfContract returns the fields of a behaviour that the contract does not have, and words that a field of it does not
// allow.
func OfContract(k *kind.Kind, pkg *syntax.Package) []*syntax.LoadError {
	c := contractOf(facts.Of(k, pkg).Reader, pkg)
	if c.Definition.Fields["scope"] == nil {
		return nil // it is not a contract.#Controller
	}
	c.fields(c.Definition, "#Controller", "")
	c.words(c.Definition, "#Controller", "userRights", "")
	c.behaviour()
	c.fields(c.Definition.Peek(behaviour.InjectName), "#Injection", "inject.")
	phases := c.Definition.Peek("phases")
	for _, name := range phases.Order {
		path := "phases." + name + "."
		phase := phases.Peek(name)
		c.fields(phase, "#Phase", path)
		c.children(phase, path)
		c.listed(phase.Fields["next"], "#Transition", path+"next")
	}
	c.listed(c.Definition.Fields["columns"], "#Column", "columns")
	return c.Mistakes
}

// OfConversion is OfContract for a conversion.
func OfConversion(r *infer.Reader, pkg *syntax.Package, definition string) []*syntax.LoadError {
	if r.Definition.Fields["served"] == nil {
		return nil // it is not a contract.#Conversion
	}
	c := contractOf(r, pkg)
	c.fields(c.Definition, "#"+syntax.ConversionSuffix, definition+".")
	return c.Mistakes
}

// behaviour checks what kinds and decorators have in common.
func (c *contract) behaviour() {
	c.words(c.Definition, "#Controller", "scope", "")
	c.children(c.Definition, "")
	reads := c.Definition.Peek(kind.ReadsName)
	for _, name := range reads.Order {
		read, path := reads.Peek(name), kind.ReadsName+"."+name+"."
		c.fields(read, "#Read", path)
		c.selectorFields(read, path)
	}
}

// selectorFields reports labels that stand in the label selector of a structure itself, as in selectors of a Service.
func (c *contract) selectorFields(s *infer.Structure, path string) {
	selector, known := s.Peek("selector"), []string{"matchLabels", "matchExpressions"}
	for _, name := range selector.Order {
		near := types.DidYouMean(name, known)
		switch at := selector.Fields[name].Node; {
		case slices.Contains(known, name):
		case near != "" || name == "labels":
			c.Report(mistake.UnknownField, at, "%sselector.%s: unknown field%s", path, name,
				cmp.Or(near, "; did you mean matchLabels?"))
		default:
			c.Report(mistake.UnknownField, at,
				`%sselector.%q: unknown field: write selector: matchLabels: %[2]q: "VALUE", or selector: matchExpressions: [{key: %[2]q, operator: "Exists"}]`, path, name)
		}
	}
}

// listed checks that a field is a list, and that its items have no fields that a definition of the contract lacks.
func (c *contract) listed(field *infer.Member, definition, path string) {
	if field == nil {
		return
	}
	for _, p := range field.Parts {
		switch e := p.Expr.(type) {
		case *ast.ListLit:
			c.items(p, e, definition, path)
		case *ast.StructLit, *ast.BasicLit:
			c.Report(mistake.ConflictingValues, e, "%s: must be a list: write [{…}]", path)
		}
	}
}

func (c *contract) items(p infer.Part, list *ast.ListLit, definition, path string) {
	var items []*infer.Structure
	c.Quietly(func() {
		for _, item := range c.Items(p, list) {
			items = append(items, c.Gather([]infer.Part{item}))
		}
	})
	for i, item := range items {
		at := fmt.Sprintf("%s[%d].", path, i)
		c.fields(item, definition, at)
		c.words(item, definition, "type", at)
	}
}

// children checks the children of the kind, or of a phase.
func (c *contract) children(owner *infer.Structure, prefix string) {
	c.loopNames(owner, prefix)
	children := owner.Peek("children")
	for _, name := range children.Order {
		path := prefix + "children." + name + "."
		child := children.Peek(name)
		c.fields(child, "#Child", path)
		for _, field := range []string{"update", "strays", "onDelete"} {
			c.words(child, "#Child", field, path)
		}
	}
}

// maxListed is how many fields a message lists.
const maxListed = 12

// foreignFields are fields that other tools have, and what the definitions of the contract have instead.
var foreignFields = map[string]map[string]string{
	"#Transition": {
		"schedule": "cron", "if": "when", "condition": "when", "phase": "to", "target": "to", "delay": "after",
		"timeout": "after",
	},
	"#Phase": {
		"final": "terminal", "end": "terminal", "transitions": "next", "to": "next: [{to: …}]",
		"after": "next: [{to: …, after: …}]", "when": "next: [{to: …, when: …}]", "cron": "next: [{to: …, cron: …}]",
	},
	"#Child": {
		"readyWhen": "ready", "includeWhen": "when, or an if around the child", "if": "when, or an if around the child",
		"dependsOn": "when, or refer to observed.NAME, which waits for it", "count": "replicas", "size": "replicas",
		"name": "metadata: name in template", "deletionPolicy": "onDelete",
	},
	"#Controller": {
		"printColumns": "columns", "printerColumns": "columns", "additionalPrinterColumns": "columns",
		"finalizer": "onDelete", "finalizers": "onDelete", "states": "phases", "resources": "children",
	},
	"#Column": {"jsonPath": "path", "JSONPath": "path"},
}

// fields reports fields of a structure that a definition of the contract does not have.
func (c *contract) fields(s *infer.Structure, definition, path string) {
	known := c.Gather(c.TopLevel(infer.Part{In: c.definitions}, definition)).Order
	for _, name := range s.Order {
		if isHidden := strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#"); !isHidden &&
			!slices.Contains(known, name) {
			hint := types.Suggest(name, known, maxListed)
			instead := foreignFields[definition][name]
			switch {
			case instead != "":
				hint = ": write " + instead
			case definition == "#Child" && slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "data"},
				name):
				hint = ": write it in template"
			case definition != "#Target" && definition != "#Read":
			case slices.Contains([]string{"label", "labels", "matchLabels"}, name):
				hint = `: write selector: matchLabels: "KEY": "VALUE", or selector: matchExpressions: [{key: "KEY", operator: "Exists"}]`
			case name == "matchExpressions":
				hint = `: write selector: matchExpressions: […]`
			}
			c.Report(mistake.UnknownField, s.Fields[name].Node, "%s%s: unknown field%s", path, name, hint)
		}
	}
}

// words reports a text that is none of those that a definition of the contract lists for a field.
func (c *contract) words(s *infer.Structure, definition, name, path string) {
	field := s.Fields[name]
	contract := c.Gather(c.TopLevel(infer.Part{In: c.definitions}, definition)).Fields[name]
	if field == nil || contract == nil {
		return
	}
	var known []string
	for _, alternative := range syntax.Flatten(contract.Parts[0].Expr) {
		if unary, ok := alternative.(*ast.UnaryExpr); ok {
			alternative = unary.X
		}
		if text, err := syntax.LiteralValue(alternative); err == nil {
			known = append(known, fmt.Sprint(text))
		}
	}
	for _, p := range field.Parts {
		var v infer.Value
		c.Quietly(func() { v = c.Infer(p) })
		if text, ok := v.Literal.(string); ok && !slices.Contains(known, text) {
			c.Report(mistake.UnsupportedValue, p.Node(), "%s%s: %q must be one of %s%s", path, name, text,
				strings.Join(known, ", "), types.DidYouMean(text, known))
		}
	}
}

// notOfDecorators are fields of a #Controller that a decorator cannot have, with the reason.
var notOfDecorators = map[string]string{
	"status":     "the status of an object of others is not written",
	"conditions": "the status of an object of others is not written",
	"phases":     "a phase is stored in the status, and that of an object of others is not written",
	"initial":    "a phase is stored in the status, and that of an object of others is not written",
	"onDelete":   "no finalizer is added to an object of others",
	"deadline":   "the status of an object of others is not written: use readiness of the children",
	"names":      "the API server names the type already",
	"columns":    "the API server serves the type already",
	"approval":   "a decorator has no CRD",
	"scale":      "a decorator has no CRD", "selectableFields": "a decorator has no CRD",
	"userRights": "no webhook is called for objects of others, so nobody is asked",
	"inject":     "what is injected comes from objects of kinds",
}

// OfDecorators is OfContract for a decorator.
func OfDecorators(k *kind.Kind, pkg *syntax.Package) []*syntax.LoadError {
	c := contractOf(facts.Of(k, pkg).Reader, pkg)
	for _, name := range c.Definition.Order {
		if why, known := notOfDecorators[name]; known {
			c.Report(mistake.DecoratorField, c.Definition.Fields[name].Node, "%s: a decorator cannot have it: %s", name,
				why)
		}
	}
	if len(c.Mistakes) > 0 {
		return c.Mistakes
	}
	c.fields(c.Definition, "#"+behaviour.DecoratorSuffix, "")
	target := c.Definition.Peek("target")
	c.fields(target, "#Target", "target.")
	c.selectorFields(target, "target.")
	c.behaviour()
	return c.Mistakes
}

// loopNames reports children in a loop whose name is that of its variable: all of them are one child.
func (c *contract) loopNames(owner *infer.Structure, prefix string) {
	children := owner.Fields["children"]
	if children == nil {
		return
	}
	for _, p := range children.Parts {
		literal, ok := p.Expr.(*ast.StructLit)
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

func (c *contract) loopName(p infer.Part, loop *ast.Comprehension, prefix string) {
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
			c.Report(mistake.LiteralName, p.With(label).Node(),
				"%schildren.%s: is one child of this name, whatever the variable is: write (%[2]s) to name each by the variable", prefix, label.Name)
		}
	}
}
