package facts

import (
	"maps"
	"slices"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/internal/parts"
)

// pathsOf lists what a controller reads.
func pathsOf(reads *kind.Reads) []string {
	all := append(paths(reads.Object, behaviour.ObjectName), paths(reads.Observed, behaviour.ObservedName)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// paths lists what is read below a path.
func paths(r *parts.Set, path string) []string {
	if r.Whole {
		return []string{path}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		all = append(all, paths(r.Fields[name], path+"."+name)...)
	}
	if r.Elements != nil {
		if within := paths(r.Elements, path+"[*]"); len(within) > 0 {
			all = append(all, within...)
		} else {
			all = append(all, path) // its length
		}
	}
	if len(all) == 0 && len(r.Fields) == 0 && r.Elements == nil && path != behaviour.ObjectName &&
		path != behaviour.ObservedName {
		return []string{path}
	}
	return all
}
