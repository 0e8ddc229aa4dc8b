package facts

import (
	"slices"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Lookups finds the entries of reads, by the syntax of the behaviour.
func Lookups(k *kind.Kind, pkg *syntax.Package) error {
	b := Of(k, pkg)
	declared := b.Definition.Fields[kind.ReadsName]
	if declared == nil {
		return nil
	}
	reads := b.Gather(declared.Parts)
	if len(reads.Others) > 0 {
		return syntax.ErrorAtNode(mistake.NotConstant,
			reads.Others[0].Node(),
			"reads: %s: write the reads out, with an apiVersion and a kind, so that the rights to read them can be listed",
			syntax.SourceOf(reads.Others[0].Expr),
		)
	}
	children := b.childNames()
	for _, name := range reads.Order {
		m := reads.Fields[name]
		if children[name] {
			return syntax.ErrorAtNode(mistake.DuplicateName, m.Node,
				"reads.%s: a child has the same name, and both would be observed.%[1]s: rename one", name)
		}
		if err := b.addLookup(name, m.Parts, !m.Certain, m.Node); err != nil {
			return err
		}
	}
	for _, d := range reads.Dynamic {
		if err := b.addLookup("", []infer.Part{d.Value}, true, d.Label); err != nil {
			return err
		}
	}
	return nil
}

func (b *Source) addLookup(name string, parts []infer.Part, conditional bool, at ast.Node) error {
	body, path := b.Gather(parts), kind.ReadsName+"."+name
	if name == "" {
		path = kind.ReadsName + "[…]"
	}
	texts := make(map[string]string)
	for _, field := range []string{"apiVersion", "kind"} {
		text, ok := body.OnlyText(field)
		switch {
		case body.Fields[field] == nil:
			return syntax.ErrorAtNode(mistake.MissingField, at, "%s.%s: is missing", path, field)
		case !ok || text == "":
			return syntax.ErrorAtNode(mistake.NotConstant, body.Fields[field].Node,
				"%s.%s: must be one string for all objects of the kind", path, field)
		}
		texts[field] = text
	}
	if _, err := apischema.ParseGroupVersion(texts["apiVersion"]); err != nil {
		return syntax.ErrorAtNode(mistake.InvalidAPIVersion, body.Fields["apiVersion"].Node,
			"%s.apiVersion: %q must be a version, or a group and a version, like \"apps/v1\"", path,
			texts["apiVersion"])
	}
	named, selected := body.Fields["name"], body.Fields["selector"]
	if (named == nil) == (selected == nil) {
		return syntax.ErrorAtNode(mistake.NameOrSelector, at, "%s: must have either a name or a selector", path)
	}
	lookup := kind.LookupFacts{
		Name: name, Type: apischema.FromAPIVersionAndKind(texts["apiVersion"], texts["kind"]),
		IsSelection: selected != nil,
		Namespace:   body.Source("namespace"), Which: body.Source("name") + body.Source("selector"),
		Conditional: conditional, Position: syntax.PositionOf(at),
	}
	if text, ok := body.OnlyText("name"); ok {
		if problems := validation.IsDNS1123Subdomain(text); len(problems) > 0 &&
			!slices.Contains(types.PathNamed, lookup.Type.Kind) {
			return syntax.ErrorAtNode(mistake.InvalidName, named.Node, "%s.name: %q is not a valid object name: %s",
				path, text, problems[0])
		}
		lookup.ObjectName = text
	}
	lookup.ObjectNamespace, _ = body.OnlyText("namespace")
	if sensitive := body.Fields[kind.SensitiveName]; sensitive != nil {
		isTrue := func(p infer.Part) bool { return b.Infer(p).Literal == true }
		if !sensitive.Certain || !slices.ContainsFunc(sensitive.Parts, isTrue) {
			return syntax.ErrorAtNode(mistake.NotConstant, sensitive.Node,
				"%s.%s: must be true for all objects of the kind, or not set", path, kind.SensitiveName)
		}
		lookup.Sensitive = true
	}
	b.kind.Lookups = append(b.kind.Lookups, lookup)
	return nil
}

// childNames are the names of all children, as far as the syntax shows them.
func (b *Source) childNames() map[string]bool {
	names := make(map[string]bool)
	add := func(owner *infer.Structure) {
		for _, name := range owner.Peek("children").Order {
			names[name] = true
		}
	}
	add(b.Definition)
	phases := b.Definition.Peek("phases")
	for _, name := range phases.Order {
		add(phases.Peek(name))
	}
	return names
}

// SameLookups rejects reads that the author of an object could choose: nothing asks whether they
// may read that.
func SameLookups(k *kind.Kind, pkg *syntax.Package) error {
	b := Of(k, pkg)
	for _, l := range k.Lookups {
		isSame := l.Name != "" && (l.IsSelection || l.ObjectName != "") &&
			(l.Namespace == "" || l.ObjectNamespace != "")
		if entry := b.Definition.Peek(kind.ReadsName).Fields[l.Name]; isSame && entry != nil &&
			!b.mentions(entry.Parts, behaviour.ObjectName) {
			continue
		}
		return syntax.ErrorAtPosition(mistake.DecoratorRead,
			l.Position,
			"%s.%s: must be the same for all objects: nobody asks whether the user who writes an object may read what it names",
			kind.ReadsName,
			l.Name,
		)
	}
	return nil
}

// mentions reports whether a name of the behaviour stands in some parts, or in what they refer to at
// the top of the package.
func (b *Source) mentions(parts []infer.Part, name string) bool {
	seen, packages := make(map[string]bool), make(binding.TopLevels)
	var in func(node ast.Node) bool
	in = func(node ast.Node) (found bool) {
		ast.Walk(node, func(n ast.Node) bool {
			ident, ok := n.(*ast.Ident)
			if !ok || seen[ident.Name] {
				return !found
			}
			found = found || ident.Name == name
			seen[ident.Name] = true
			for _, f := range packages.FieldsOf(b.pkg.Instance)[ident.Name] {
				found = found || in(f.Value)
			}
			return !found
		}, nil)
		return found
	}
	return slices.ContainsFunc(parts, func(p infer.Part) bool { return in(p.Expr) })
}
