package kind

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CUE v0.17.1 keeps the name of every field that it has seen in a table of the process, about 90
// bytes each, and nothing removes it. Objects have fields with free names: labels, the data of a
// ConfigMap. So the evaluator gets stand-ins for them, which are the same few thousand for all
// objects, and the real names are put back into what it returns.
//
// A behaviour that looks at names gets the real ones, up to maxNames of them.

// maxNames is how many different names a kind may give to the evaluator, 30 MB at most.
const maxNames = 250_000

// names are the field names in the CUE of a package.
type names struct {
	// known are those that the source mentions. They are in CUE's table already.
	known sets.Set[string]
	// read reports that the source may look at the text of other names.
	read bool
	// metadata are the parts of an object's metadata that the source may read other than as
	// object.metadata.
	metadata sets.Set[string]

	mu   sync.Mutex
	seen map[uint64]struct{} // hashes of the unknown names that the evaluator got
}

// unreadMetadata are the parts of an object's metadata that can be large, and hardly any
// behaviour reads.
var unreadMetadata = []string{"labels", "annotations", "managedFields"}

// libraryNames are those of a package that cannot change.
var libraryNames sync.Map // from import path to sets.Set[string]

// namesOf finds the names in the CUE of a package and of those that it imports.
func namesOf(instance *build.Instance) *names {
	n := &names{known: sets.New[string](), metadata: sets.New[string](), seen: make(map[uint64]struct{})}
	eachPackage(instance, func(of *build.Instance) bool {
		for _, file := range of.Files {
			if isLibrary(file.Filename) {
				n.known = n.known.Union(namesOfLibrary(file))
				continue
			}
			n.addFile(file)
		}
		return true
	})
	return n
}

// namesOfLibrary returns the names in a file of the contract or of the library.
func namesOfLibrary(file *ast.File) sets.Set[string] {
	if known, ok := libraryNames.Load(file.Filename); ok {
		return known.(sets.Set[string])
	}
	of := &names{known: sets.New[string](), metadata: sets.New[string]()}
	of.addFile(file)
	libraryNames.Store(file.Filename, of.known)
	return of.known
}

// addFile collects the names in a file, and finds out whether it looks at others.
func (n *names) addFile(file *ast.File) {
	ast.Walk(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			n.known.Insert(node.Name)
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				if text, err := literal.Unquote(node.Value); err == nil {
					n.known.Insert(text)
				}
			}
		case *ast.Field:
			n.read = n.read || looksAtNames(node.Label)
		case *ast.IndexExpr:
			_, isLiteral := node.Index.(*ast.BasicLit)
			n.read = n.read || !isLiteral && !isNamedDefinition(node.X)
		case *ast.CallExpr:
			n.read = n.read || readsNames(builtin(node))
		case *ast.Comprehension:
			n.read = n.read || looksAtKeys(node)
		}
		return true
	}, nil)
}

// isNamedDefinition reports whether an expression is a definition by its name, like the registry of a
// package. Its fields are in the source, and an object adds none.
func isNamedDefinition(x ast.Expr) bool {
	ident, ok := x.(*ast.Ident)
	return ok && strings.HasPrefix(ident.Name, "#")
}

// readsNames reports whether a builtin turns structs into text, or text into structs.
func readsNames(builtin string) bool {
	return strings.HasPrefix(builtin, "text/") || strings.HasPrefix(builtin, "encoding/") &&
		!strings.HasPrefix(builtin, "encoding/base64.") && !strings.HasPrefix(builtin, "encoding/hex.")
}

// looksAtNames reports whether a label is a pattern for names, or names them.
func looksAtNames(label ast.Label) bool {
	list, ok := label.(*ast.ListLit)
	if !ok {
		return false
	}
	for _, element := range list.Elts {
		if ident, ok := element.(*ast.Ident); !ok || ident.Name != "string" && ident.Name != "_" {
			return true
		}
	}
	return false
}

// looksAtKeys reports whether a comprehension does more with the names of fields than to give
// them to other fields, as in {(k): v}, and to compare them with known ones.
func looksAtKeys(n *ast.Comprehension) bool {
	for i, clause := range n.Clauses {
		loop, ok := clause.(*ast.ForClause)
		if !ok || loop.Key == nil || loop.Key.Name == "_" {
			continue
		}
		nodes := []ast.Node{n.Value}
		for _, later := range n.Clauses[i+1:] {
			nodes = append(nodes, later)
		}
		if slices.ContainsFunc(nodes, func(within ast.Node) bool { return looksAt(within, loop.Key.Name) }) {
			return true
		}
	}
	return false
}

func looksAt(within ast.Node, key string) (found bool) {
	isKey := func(e ast.Node) bool {
		ident, ok := e.(*ast.Ident)
		return ok && ident.Name == key
	}
	isText := func(e ast.Expr) bool {
		literal, ok := e.(*ast.BasicLit)
		return ok && literal.Kind == token.STRING
	}
	ast.Walk(within, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Field:
			switch label := node.Label.(type) {
			case *ast.ParenExpr:
				found = found || !isKey(label.X) && looksAt(label.X, key)
			case *ast.Interpolation:
				found = found || looksAt(label, key)
			}
			found = found || looksAt(node.Value, key)
			return false
		case *ast.SelectorExpr:
			found = found || looksAt(node.X, key)
			return false
		case *ast.BinaryExpr:
			if (node.Op == token.EQL || node.Op == token.NEQ) && (isKey(node.X) && isText(node.Y) || isText(node.X) && isKey(node.Y)) {
				return false
			}
		case *ast.Ident:
			found = found || isKey(node)
		}
		return !found
	}, nil)
	return found
}

// within returns the part of an object that enters the evaluator: all but large parts of its
// metadata that nothing reads.
func (n *names) within(object map[string]any, read *reads) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || read.whole || n.metadata.Has("metadata") {
		return object
	}
	ofMetadata := read.part("metadata")
	if ofMetadata.whole {
		return object
	}
	metadata = maps.Clone(metadata)
	for _, name := range unreadMetadata {
		values, ok := metadata[name]
		ofPart := ofMetadata.part(name)
		if !ok || n.metadata.Has(name) || ofPart.whole || ofPart.elements != nil {
			continue
		}
		delete(metadata, name)
		if texts, ok := values.(map[string]any); ok {
			metadata[name] = n.knownOf(texts)
		}
	}
	object = maps.Clone(object)
	object["metadata"] = metadata
	return object
}

// knownOf returns the fields with names that the source mentions.
func (n *names) knownOf(texts map[string]any) map[string]any {
	known := make(map[string]any)
	if len(texts) < n.known.Len() {
		for name, value := range texts {
			if n.known.Has(name) {
				known[name] = value
			}
		}
		return known
	}
	for name := range n.known {
		if value, ok := texts[name]; ok {
			known[name] = value
		}
	}
	return known
}

// standIns replace the names of fields in one evaluation.
type standIns struct {
	standIn map[string]string
	name    map[string]string // by stand-in
}

// standInPrefix begins all stand-ins. It is random so that no object can contain one.
var standInPrefix = "name-" + rand.Text() + "-"

// admit returns the values with stand-ins for all names that the source does not mention, or, if
// it looks at names, an error once there were too many.
func (n *names) admit(values map[string]any) (map[string]any, *standIns, error) {
	unknown := sets.New[string]()
	n.collect(values, unknown)
	if n.read {
		return values, nil, n.count(unknown)
	}
	if unknown.Len() == 0 {
		return values, nil, nil
	}
	s := &standIns{standIn: make(map[string]string, unknown.Len()), name: make(map[string]string, unknown.Len())}
	for i, name := range sets.List(unknown) { // sorted, so that the order of fields stays
		standIn := fmt.Sprintf("%s%05d", standInPrefix, i)
		s.standIn[name], s.name[standIn] = standIn, name
	}
	return renamed(values, s.standIn).(map[string]any), s, nil
}

// collect adds the names in a value that the source does not mention.
func (n *names) collect(value any, unknown sets.Set[string]) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			if !n.known.Has(name) {
				unknown.Insert(name)
			}
			n.collect(v, unknown)
		}
	case []any:
		for _, v := range value {
			n.collect(v, unknown)
		}
	}
}

var seed = maphash.MakeSeed()

// count notes names that the evaluator gets; an error means that it had too many and gets none.
func (n *names) count(unknown sets.Set[string]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range unknown {
		hash := maphash.String(seed, name)
		if _, known := n.seen[hash]; known {
			continue
		}
		if len(n.seen) >= maxNames {
			return &EvaluationError{Path: "object", Err: fmt.Errorf("the behaviour looks at the names of fields, and the evaluator, which keeps them, has had %d different ones since Fescue was started: restart it, or do not look at names", maxNames)}
		}
		n.seen[hash] = struct{}{}
	}
	return nil
}

// renamed returns a value with other names for fields.
func renamed(value any, by map[string]string) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for name, v := range value {
			if other, ok := by[name]; ok {
				name = other
			}
			result[name] = renamed(v, by)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, v := range value {
			result[i] = renamed(v, by)
		}
		return result
	}
	return value
}

// restore puts the real names back; s may be nil.
func (s *standIns) restore(value map[string]any) map[string]any {
	if s == nil || value == nil {
		return value
	}
	return renamed(value, s.name).(map[string]any)
}

// text puts the real names back into a message.
func (s *standIns) text(text string) string {
	if s == nil || !strings.Contains(text, standInPrefix) {
		return text
	}
	length := len(standInPrefix) + len("00000")
	var b strings.Builder
	for {
		before, _, found := strings.Cut(text, standInPrefix)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		standIn := text[len(before):min(len(before)+length, len(text))]
		b.WriteString(cmp.Or(s.name[standIn], standIn))
		text = text[len(before)+len(standIn):]
	}
}

// error puts the real names back into an error of an evaluation.
func (s *standIns) error(err error) error {
	failed, ok := errors.AsType[*EvaluationError](err)
	if s == nil || !ok {
		return err
	}
	restored := &EvaluationError{Path: s.text(failed.Path), Err: failed.Err, Position: failed.Position, Value: failed.Value}
	if text := failed.Err.Error(); strings.Contains(text, standInPrefix) {
		restored.Err = errors.New(s.text(text))
	}
	if value, ok := failed.Value.(map[string]any); ok {
		restored.Value = s.restore(value)
	}
	return restored
}

// fieldErrors puts the real names back into field errors.
func (s *standIns) fieldErrors(errs field.ErrorList) field.ErrorList {
	if s == nil {
		return errs
	}
	for _, err := range errs {
		err.Field, err.Detail = s.text(err.Field), s.text(err.Detail)
		if value, ok := err.BadValue.(map[string]any); ok {
			err.BadValue = s.restore(value)
		}
	}
	return errs
}
