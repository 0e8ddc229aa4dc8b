package check

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/podrules"
)

// podValues reports values for which the API server rejects every Pod that has a spec, or that it is a part of,
// whatever the object is. It gives podrules what is the same for all objects; labels and annotations have the rules of
// their type.
func (c *Checker) podValues(spec *infer.Structure, at ast.Node, path string) {
	known := &constant{node: at, path: strings.TrimSuffix(path, ".spec")}
	c.Quietly(func() {
		known.fields = map[string]*constant{"spec": constants{c.fitter, spec.Referred}.structure(spec, path, "spec")}
	})
	value, _ := known.value().(map[string]any)
	var part corev1.Pod
	if runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(value, &part, true) != nil {
		return // an unknown field or a value of a wrong type, which is reported as such
	}
	for _, e := range podrules.ValidatePart(&part, nil) {
		of, rest := known.at(e.Field)
		node := of.node
		switch { // the place of another mistake of the same cause, so that one of them is reported
		case e.Type == field.ErrorTypeDuplicate:
			item, _ := known.at(e.Field[:strings.LastIndex(e.Field, ".")])
			node = item.node
		case of.label != nil && of.scalar == nil && rest == "":
			node = of.label
		case node == nil:
			node = at
		}
		c.Report(mistake.InvalidValue, node, "%s%s: %s", of.path, rest, e.ErrorBody())
	}
}

// constant is a value that is the same for all objects, with its place.
type constant struct {
	node   ast.Node
	label  ast.Node // the name of the field that has it
	path   string
	scalar any
	fields map[string]*constant
	items  []*constant // in place of fields
	// isPart means that it has more, which objects decide.
	isPart bool
}

// value returns the value as JSON is decoded.
func (c *constant) value() any {
	switch {
	case c.fields != nil:
		fields := make(map[string]any, len(c.fields))
		for name, field := range c.fields {
			fields[name] = field.value()
		}
		return fields
	case c.scalar == nil:
		items := make([]any, len(c.items))
		for i, item := range c.items {
			items[i] = item.value()
		}
		return items
	}
	return c.scalar
}

// segments are those of a path of package field: a name, or an index or a key in brackets.
var segments = regexp.MustCompile(`^\.?([^.\[]+)|^\[([^\]]*)\]`)

// at returns the value at a path, or the last one on the way there, and what is left of the path.
func (c *constant) at(path string) (of *constant, rest string) {
	for of = c; path != ""; {
		found := segments.FindStringSubmatch(path)
		if found == nil {
			break
		}
		next := of.fields[found[1]+found[2]]
		if i, err := strconv.Atoi(found[2]); err == nil && i < len(of.items) {
			next = of.items[i]
		}
		if next == nil {
			break
		}
		of, path = next, path[len(found[0]):]
	}
	return of, path
}

// constants finds what of a value is the same for all objects.
type constants struct {
	*fitter
	// referred means that the value is not written in place: what it is unified with may add to any struct in it.
	referred bool
}

// additive are the structs in a Pod of which any part can be told to be invalid: what is added to them makes nothing
// valid. Of all others, nothing is known if anything is not. A container is one only without its image, by which
// podrules tells a whole one.
var additive = regexp.MustCompile(`^spec(\.(initC|c)ontainers\[\])?$`)

// structure returns what is the same for all objects in a struct at a path in a Pod, without indices; nil if nothing is
// known of it.
func (c constants) structure(s *infer.Structure, path, inPod string) *constant {
	c.referred = c.referred || s.Referred || len(s.Others) > 0
	known := &constant{path: path, fields: make(map[string]*constant), isPart: c.referred || s.IsOpen()}
	for _, name := range s.Order {
		m := s.Fields[name]
		if m.Constraint || name == "nodeSelector" && inPod == "spec" { // as labels
			continue
		}
		var field *constant
		if m.Certain {
			field = c.of(m.Together(), path+"."+name, inPod+"."+name)
		}
		if field == nil {
			known.isPart = true
			continue
		}
		field.label = m.Node
		known.fields[name] = field
		known.isPart = known.isPart || field.isPart
	}
	if known.isPart && !additive.MatchString(inPod) {
		return nil
	}
	if strings.HasSuffix(inPod, "ontainers[]") && known.isPart {
		if known.fields["name"] == nil {
			return nil
		}
		delete(known.fields, "image")
	}
	return known
}

// of returns what is the same for all objects in what is unified from parts.
func (c constants) of(parts []infer.Part, path, inPod string) *constant {
	if !c.Enter() {
		return nil
	}
	defer c.Leave()
	var structs, lists, others []infer.Part
	for _, p := range parts {
		c.referred = c.referred || p.Partial || !isWritten(p.Expr)
		c.sort(p, &structs, &lists, &others)
	}
	var known *constant
	switch all := len(structs) + len(lists) + len(others); {
	case all == 0:
		return nil
	case len(structs) == all:
		known = c.structure(c.Gather(structs), path, inPod)
	case len(lists) == all:
		known = c.list(lists, path, inPod)
	case len(others) == all:
		isMaybe := slices.ContainsFunc(others, func(p infer.Part) bool { return p.Conditional })
		if literal := c.Unified(others).Literal; literal != nil && !isMaybe {
			known = &constant{path: path, scalar: literal}
		}
	}
	if known != nil {
		known.node = slices.Concat(structs, lists, others)[0].Node()
	}
	return known
}

// list returns the items of a list that are the same for all objects.
func (c constants) list(lists []infer.Part, path, inPod string) *constant {
	known := &constant{path: path}
	for i, item := range infer.Rows(c.Reader, lists) {
		of := c.of(item, path+"["+strconv.Itoa(i)+"]", inPod+"[]")
		if of == nil || item[0].Partial {
			known.isPart = true
			continue
		}
		known.items = append(known.items, of)
		known.isPart = known.isPart || of.isPart
	}
	return known
}

// isWritten reports whether a struct or a list is written in place.
func isWritten(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StructLit, *ast.ListLit:
		return true
	case *ast.ParenExpr:
		return isWritten(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.AND && isWritten(e.X) && isWritten(e.Y)
	}
	return false
}
