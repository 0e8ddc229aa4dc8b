package projection

import "maps"

// Fields are the parts of a value that are kept. Nothing changes them once they are made, so that
// they can be shared. A scalar is kept as a whole, of a list all elements are kept, and of an object
// the fields that are named. Nil keeps nothing.
type Fields struct {
	// whole keeps everything.
	whole  bool
	fields map[string]*Fields
	// each is what is kept of each element of a list, and of each field of an object.
	each *Fields
}

// Each stands in a path for each element of a list, or each field of an object.
const Each = "*"

var everything, nothing = &Fields{whole: true}, &Fields{}

// Everything keeps all of a value.
func Everything() *Fields { return everything }

// Of keeps what the paths lead to, as a whole. A path names fields from the root; below a list, it
// goes on with Each. The empty path is the root.
func Of(paths ...[]string) *Fields {
	f := &Fields{}
	for _, path := range paths {
		f.add(path)
	}
	return f
}

func (f *Fields) add(path []string) {
	if len(path) == 0 {
		f.whole = true
		return
	}
	below := f.each
	if path[0] != Each {
		below = f.fields[path[0]]
	}
	if below == nil {
		below = &Fields{}
		switch {
		case path[0] == Each:
			f.each = below
		case f.fields == nil:
			f.fields = map[string]*Fields{path[0]: below}
		default:
			f.fields[path[0]] = below
		}
	}
	below.add(path[1:])
}

// Union keeps what f or other keeps.
func (f *Fields) Union(other *Fields) *Fields {
	switch {
	case f == nil || other == f:
		return other
	case other == nil:
		return f
	case f.whole || other.whole:
		return everything
	}
	both := &Fields{fields: maps.Clone(f.fields), each: f.each.Union(other.each)}
	for name, below := range other.fields {
		if both.fields == nil {
			both.fields = make(map[string]*Fields, len(other.fields))
		}
		both.fields[name] = both.fields[name].Union(below)
	}
	return both
}

// Covers reports whether f keeps all that other keeps.
func (f *Fields) Covers(other *Fields) bool {
	switch {
	case other == nil || f != nil && f.whole:
		return true
	case f == nil || other.whole:
		return false
	case other.each != nil && !f.each.Covers(other.each):
		return false
	}
	for name, below := range other.fields {
		if !f.of(name).Covers(below) {
			return false
		}
	}
	return true
}

// of returns what is kept of a field of an object; nil is nothing.
func (f *Fields) of(name string) *Fields {
	switch below := f.fields[name]; {
	case f.whole:
		return f
	case f.each == nil:
		return below
	default:
		return below.Union(f.each)
	}
}

// element returns what is kept of each element of a list, which is kept itself.
func (f *Fields) element() *Fields {
	switch {
	case f.whole:
		return f
	case f.each == nil:
		return nothing
	}
	return f.each
}
