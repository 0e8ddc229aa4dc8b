package schema

import "strings"

// IsRegular reports whether a field is one that is required unless it has a default. The path has [] for the items of a
// list. What depends on alternatives is not.
func IsRegular(s *Schema, path []string) bool {
	name, isList := strings.CutSuffix(path[0], "[]")
	if !s.isLeaf() || s.Struct == nil {
		return false
	}
	f := s.Struct.Field(name)
	if f == nil || len(path) == 1 {
		return f != nil && f.Presence == Regular
	}
	inner := f.Schema
	if isList {
		inner = inner.Items
	}
	return inner != nil && IsRegular(inner, path[1:])
}
