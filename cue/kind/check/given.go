package check

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// given is what a behaviour reads: the object, the children, and what it looks up. It notes how they are read.
type given struct{ *Checker }

// Root returns what the contract gives a behaviour.
func (g given) Root(p infer.Part, e *ast.Ident) (infer.Value, bool) {
	switch e.Name {
	case behaviour.ObjectName:
		owner := "#" + g.kind.GroupVersionKind.Kind
		if g.kind.Target != nil {
			owner = "a " + g.kind.GroupVersionKind.Kind
		}
		return infer.Value{Type: g.Object, Path: behaviour.ObjectName, Owner: owner}, true
	case behaviour.ObservedName:
		g.readsBeyond(p, e, behaviour.ObservedName)
		return g.observed(), true
	case behaviour.IndexName:
		g.numbered++
		if g.checked != "" && !g.isNumbered() {
			g.Report(mistake.IndexOutsideSet, p.Node(), "%s: only the template of an ordered set can read index",
				g.checked)
		}
		return infer.Value{Type: types.Of(types.Integer), Path: behaviour.IndexName}, true
	}
	return infer.Value{}, false
}

// observed returns what is known of the children, and of what the behaviour reads.
func (g given) observed() infer.Value {
	t := &types.Type{Values: types.Object, Fields: make(map[string]*types.Type)}
	for name, child := range g.Children {
		t.Fields[name] = child.T
		if child.set {
			t.Fields[name] = &types.Type{Values: types.List, Items: child.T}
		}
	}
	for _, name := range g.Definition.In(behaviour.ObservedName).Order {
		if t.Fields[name] == nil {
			t.Fields[name] = types.Unknown
		}
	}
	if g.moreChildren {
		t.Others = types.Unknown
	}
	members := "child"
	if len(g.kind.Lookups) > 0 {
		members = "child or read"
	}
	return infer.Value{Type: t, Path: behaviour.ObservedName, Members: members}
}

// isNumbered reports whether the template of an ordered set is checked.
func (g given) isNumbered() bool {
	return g.waiting != nil && g.kind.Sets[g.waiting.name].Ordered &&
		strings.HasPrefix(g.checked, g.waiting.path+".template")
}

// Select notes what does not follow from what the user submits.
func (g given) Select(p infer.Part, e ast.Expr, path string) {
	if !g.kind.IsReadable(path) {
		g.readsBeyond(p, e, path)
	}
}

// Field notes what a child waits for, and what is sensitive. A child is an owner of fields itself.
func (g given) Field(p infer.Part, e ast.Expr, of infer.Value, name string, field infer.Value) infer.Value {
	g.read(p, e, of, name)
	g.exposed(p, of, name)
	if of.Path != behaviour.ObservedName {
		return field
	}
	field.Names, field.Owner = nil, ""
	if child := g.Children[name]; child.known {
		field.Owner = child.gvk.Kind
	}
	return field
}

// read notes a field that is read for the child that is checked, and advises on one that may be
// absent: the child waits for it.
func (g given) read(p infer.Part, e ast.Expr, from infer.Value, name string) {
	if g.keeping != nil {
		g.kept(p, e, from, name)
	}
	if g.waiting == nil {
		if g.around != "" && g.kind.Target == nil && !g.IsTolerant() { // targets often have defaults
			g.optional(p, e, from, name, g.around, "no child is created")
		}
		return
	}
	g.replacing(p, from, name)
	path := from.Path + "." + name
	used := name
	if path == kind.OwnStatus {
		used = path
	}
	uses := from.Path == behaviour.ObservedName && name != g.waiting.name || path == kind.OwnStatus
	if uses && g.ordering && !slices.Contains(g.kind.Uses[g.waiting.name], used) {
		g.kind.Uses[g.waiting.name] = append(g.kind.Uses[g.waiting.name], used)
	}
	if g.IsTolerant() {
		return
	}
	switch {
	case from.Path == behaviour.ObservedName && g.waiting.path == behaviour.InjectName:
		g.Report(mistake.InjectReadsChildren, p.Node(),
			"%s: inject cannot read children: what Pods get is known before there are any", path)
	case from.Path == behaviour.ObservedName:
		if g.checked != g.waiting.path+".ready" && !p.IsGuarded(e) { // ready keeps no child from being created
			g.waiting.waits = append(g.waiting.waits, name)
		}
	default:
		consequence := "the child waits"
		if g.waiting.path == behaviour.InjectName {
			consequence = "the object is stalled"
		}
		g.optional(p, e, from, name, g.waiting.path, consequence)
	}
}

// kept notes a field that is read for the field of the status that is checked, and advises on one that waits for
// itself.
func (g given) kept(p infer.Part, e ast.Expr, from infer.Value, name string) {
	stored := g.keeping.path
	if from.Path+"."+name == stored && !g.IsTolerant() && !p.Conditional {
		g.adviseOnce(kind.Advice{Check: mistake.WaitingCycle, Field: stored, Position: syntax.PositionOf(p.Node()),
			Text: fmt.Sprintf("%s waits for itself, so it is never set: write *%s | … with a first value",
				strings.TrimPrefix(stored, behaviour.ObjectName+"."), stored)})
	}
	child, _, _ := strings.Cut(strings.TrimPrefix(from.Path, behaviour.ObservedName+"."), ".")
	g.keeping.read(p, e, from.Path+"."+name, g.IsTolerant() || g.Children[child].set)
}

// optional advises on a field that users may leave out, with its consequence for what is at a path. One under an if may
// be guarded by that.
func (g given) optional(p infer.Part, e ast.Expr, from infer.Value, name, at, consequence string) {
	isOfSpec := from.Path == behaviour.ObjectName+".spec" || strings.HasPrefix(from.Path, behaviour.ObjectName+".spec.")
	field := from.Type.Fields[name]
	if !isOfSpec || len(p.Conditions) > 0 || field == nil || field.HasDefault ||
		slices.Contains(from.Type.Required, name) {
		return
	}
	path, source := from.Path+"."+name, syntax.SourceOf(e)
	fields := strings.Split(path, ".")
	if g.kind.Target == nil && schema.IsRegular(g.kind.Compiled, fields[1:]) {
		return // the CRD cannot say so
	}
	g.adviseOnce(kind.Advice{Check: mistake.OptionalField, Field: at, Position: syntax.PositionOf(p.Node()),
		Text: fmt.Sprintf("%s: %s while %s, which is optional, is absent: write *%s | … with a default, or if %[4]s != _|_ {…} around it",
			at, consequence, path, source)})
}

// adviseOnce adds an advice, unless another says the same.
func (g given) adviseOnce(advice kind.Advice) {
	if !slices.ContainsFunc(g.advice, func(a kind.Advice) bool { return a.Text == advice.Text }) {
		g.advice = append(g.advice, advice)
	}
}

// replacing advises on a template that reads the status of its own child, which a change of the template replaces: what
// it read is gone with the former child, before the status of the object has it.
func (g given) replacing(p infer.Part, from infer.Value, name string) {
	read := behaviour.ObservedName + "." + g.waiting.name
	if g.waiting.name == "" || from.Path != read || name != "status" ||
		!strings.HasPrefix(g.checked, g.waiting.path+".template") {
		return
	}
	if update, _ := g.waiting.body.Text("update"); update != string(kind.Recreate) {
		return
	}
	g.adviseOnce(kind.Advice{Check: mistake.ReadsReplaced, Field: g.waiting.path,
		Position: syntax.PositionOf(p.Node()),
		Text: fmt.Sprintf("%s.template reads %s.status, which is gone once a change replaces the child: set a field of "+
			"the status by it, and read %s.status in the template", g.waiting.path, read, behaviour.ObjectName)})
}

// exposed advises on a value of a sensitive object that goes where many can read it: the status, or a ConfigMap. Names
// and labels are not sensitive, and of a Secret only its data is.
func (g given) exposed(p infer.Part, from infer.Value, name string) {
	isStatus := g.checked == "status" || g.checked == "conditions"
	isConfigMap := g.waiting != nil && g.waiting.gvk.Group == "" && g.waiting.gvk.Kind == "ConfigMap" &&
		strings.HasPrefix(g.checked, g.waiting.path+".template")
	read, ok := strings.CutPrefix(from.Path, behaviour.ObservedName+".")
	if !ok || g.IsTolerant() || !isStatus && !isConfigMap && !g.naming {
		return
	}
	gvk := g.Children[read].gvk
	switch isSecret := kind.IsSecret(gvk); {
	case isSecret && name != "data" && name != "stringData", !isSecret &&
		(!g.kind.Lookups.AreSensitive(gvk) || name == "metadata" || name == "kind" || name == "apiVersion"):
		return
	}
	if g.naming {
		g.Report(mistake.ExposedSecret,
			p.Node(),
			"%s.%s.%s is part of the name of a child, which is a label and stands in messages: name it after something that is not sensitive",
			behaviour.ObservedName,
			read,
			name,
		)
		return
	}
	where := "the status"
	if isConfigMap {
		where = "a ConfigMap"
	}
	text := fmt.Sprintf("%s.%s.%s goes into %s, where more people can read it than the original: put it into a Secret",
		behaviour.ObservedName, read, name, where)
	advice := kind.Advice{Check: mistake.ExposedSecret, Field: g.checked, Position: syntax.PositionOf(p.Node()),
		Text: text}
	if !slices.Contains(g.advice, advice) {
		g.advice = append(g.advice, advice)
	}
}

// readsBeyond notes what the author of an object does not submit, and reports it in an entry of reads, which
// must not depend on it.
func (g given) readsBeyond(p infer.Part, e ast.Expr, path string) {
	g.Beyond++
	if g.lookingUp {
		g.Report(mistake.UnstableRead, p.Node(),
			"%s: reads cannot depend on %s: they follow from the spec, name, namespace, labels and annotations of the object", syntax.SourceOf(e), path)
	}
}
