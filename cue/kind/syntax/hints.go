package syntax

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

var (
	noReference = regexp.MustCompile(`^reference "([^"]+)" not found`)
	noFunction  = regexp.MustCompile(`^cannot call non-function (\w+)\.(\w+) \(type _\|_\)$`)
)

// unknownField is the message of a field that a closed struct does not have.
const unknownField = "unknown field"

// explained returns a message of CUE about the field at a path, with what to write instead, if that is known, and the
// check that stands for it.
func explained(message string, path []string) (string, mistake.Check) {
	field, inSchema := "", false
	if len(path) > 0 {
		field = path[len(path)-1]
		inSchema = strings.HasPrefix(path[0], "#") && !strings.HasSuffix(path[0], behaviour.ControllerSuffix) &&
			!strings.HasSuffix(path[0], behaviour.DecoratorSuffix)
	}
	if m := noReference.FindStringSubmatch(message); m != nil {
		instead := cmp.Or(foreignName(m[1], inSchema), contractName(m[1]), forgottenImport(m[1]))
		return message + instead, mistake.UnresolvedReference
	}
	if m := noFunction.FindStringSubmatch(message); m != nil {
		return m[1] + " has no function " + m[2] + similarFunction(m[1], m[2]), mistake.UnknownFunction
	}
	switch {
	case message == "field not allowed":
		return unknownField + ofCRD[field], mistake.UnknownField
	case strings.HasPrefix(message, "builtin package "):
		return message, mistake.FailedImport
	case strings.HasPrefix(message, "field is required but not present"):
		return message, mistake.MissingField
	case strings.HasPrefix(message, "conflicting values"):
		return message + foreignValue(message, field, inSchema), mistake.ConflictingValues
	}
	return message + foreignValue(message, field, inSchema), mistake.CUEError
}

// ofCRD ends the message of a field that a CRD has, where the contract has another.
var ofCRD = map[string]string{
	"specReplicasPath": ": write spec", "statusReplicasPath": ": write status", "labelSelectorPath": ": write selector",
}

// contractName ends the message of a name that is not found, if the contract gives it to a behaviour: a reference
// finds only names that the file itself has around it.
func contractName(name string) string {
	switch name {
	case behaviour.ObjectName:
		return ": write object!: #KIND in the controller of #KIND, or object: _ in a decorator, and refer to object only in there"
	case behaviour.ObservedName, behaviour.IndexName:
		return fmt.Sprintf(": write %s: _ in the controller or decorator, and refer to %[1]s only in there", name)
	}
	return ""
}

// forgottenImport ends the message of a name that is not found, if a package has that name.
func forgottenImport(name string) string {
	paths := []string{
		ContractPackage, LibraryPackage, "strings", "list", "math", "time", "strconv", "regexp", "struct", "net",
		"path", "uuid", "html",
		"text/template", "encoding/json", "encoding/yaml", "encoding/base64", "encoding/hex", "crypto/md5",
		"crypto/sha1", "crypto/sha256", "crypto/sha512",
	}
	for _, path := range paths {
		if path[strings.LastIndex(path, "/")+1:] == name {
			return fmt.Sprintf(": write import %q", path)
		}
	}
	return ""
}

// similarFunction ends the message of a function that a package of CUE does not have.
func similarFunction(pkg, name string) string {
	if pkg == "time" && name == "Now" {
		return ": a behaviour has no clock: write after, cron or deadline"
	}
	var known, containing []string
	for _, function := range behaviour.FunctionsOf(pkg) {
		known = append(known, function)
		if strings.Contains(function, name) { // as ToUpper does Upper
			containing = append(containing, function)
		}
	}
	if len(containing) > 0 {
		return "; did you mean " + slices.Min(containing) + "?"
	}
	return types.DidYouMean(name, known)
}

// undefinedField is how CUE says that a value has no field of a name.
const undefinedField = "undefined field: "

// ExplainSelfReference says of a field that CUE does not know that it refers to itself, or to a field around it that
// has the name of a field of all objects.
func ExplainSelfReference(instance *build.Instance, e *LoadError) *LoadError {
	_, undefined, isUndefined := strings.Cut(e.Reason, undefinedField)
	if !isUndefined && !strings.HasSuffix(e.Reason, unknownField) {
		return e
	}
	reference, isItself := selfReference(instance, e.File, e.Line)
	isMeant := isItself || slices.Contains(strings.Split(reference, "."), undefined)
	if reference == "" || !isMeant {
		return e
	}
	e.Check = mistake.SelfReference
	root, _, _ := strings.Cut(reference, ".")
	proposed := "object." + reference
	if !slices.Contains(fieldsOfObjects, root) {
		proposed = "object.spec." + reference[strings.LastIndex(reference, ".")+1:]
	}
	to := fmt.Sprintf("the field %s around it", root)
	if isItself {
		to = "this field itself"
	}
	e.Reason = fmt.Sprintf("%s refers to %s: begin with object, as in %s", reference, to, proposed)
	return e
}

// fieldsOfObjects are the fields that all objects have, and children as well.
var fieldsOfObjects = []string{"metadata", "spec", "status"}

// selfReference returns a reference at a line that is the value of the field that it refers to, or else one that begins
// with the name of a field of all objects, and refers to a field around it. CUE's message about such a field is one
// about its type.
func selfReference(instance *build.Instance, file string, line int) (found string, isItself bool) {
	for _, source := range instance.Files {
		if place.Relative(source.Filename) != file {
			continue
		}
		var around []*ast.Field
		ast.Walk(source, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Field:
				around = append(around, node)
				if node.Value.Pos().Line() == line && refersToLast(node.Value, around) {
					found, isItself = SourceOf(node.Value), true
				}
			case *ast.SelectorExpr:
				if node.Pos().Line() == line && !isItself && refersAround(node, around) {
					found = SourceOf(node)
				}
				return false // its first part is not another reference
			}
			return true
		}, func(node ast.Node) {
			if _, ok := node.(*ast.Field); ok {
				around = around[:len(around)-1]
			}
		})
	}
	return found, isItself
}

// refersAround reports whether a reference begins with the name of a field of all objects, which is one of the fields
// around it.
func refersAround(reference *ast.SelectorExpr, around []*ast.Field) bool {
	switch root := reference.X.(type) {
	case *ast.SelectorExpr:
		return refersAround(root, around)
	case *ast.Ident:
		to := binding.Of(root)
		return slices.Contains(fieldsOfObjects, root.Name) && to.Kind == binding.Field &&
			slices.ContainsFunc(around, func(f *ast.Field) bool { return f.Value == to.Expr })
	}
	return false
}

// refersToLast reports whether a reference is to the last of some fields, each of which is in the one before.
func refersToLast(reference ast.Expr, fields []*ast.Field) bool {
	for _, f := range slices.Backward(fields) {
		switch e := reference.(type) {
		case *ast.Ident:
			return binding.Of(e).Expr == f.Value
		case *ast.SelectorExpr:
			selected, _, err := ast.LabelName(e.Sel)
			name, _, errField := ast.LabelName(f.Label)
			if err != nil || errField != nil || selected != name {
				return false
			}
			reference = e.X
		default:
			return false
		}
	}
	return false
}
