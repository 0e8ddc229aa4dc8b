package admission

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one step of an RFC 6902 patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// diff adds to operations those that make after of before at a path. Nothing is removed:
// what after does not have stays.
func diff(operations []operation, path string, before, after any) []operation {
	switch after := after.(type) {
	case map[string]any:
		before, ok := before.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(after)) {
			at := path + "/" + pointerEscapes.Replace(name)
			if value, is := before[name]; is {
				operations = diff(operations, at, value, after[name])
			} else {
				operations = append(operations, operation{"add", at, after[name]})
			}
		}
		return operations
	case []any:
		before, ok := before.([]any)
		if !ok || len(before) != len(after) {
			break
		}
		for i := range after {
			operations = diff(operations, path+"/"+strconv.Itoa(i), before[i], after[i])
		}
		return operations
	}
	if reflect.DeepEqual(before, after) {
		return operations
	}
	return append(operations, operation{"replace", path, after})
}

// pointerEscapes are those of RFC 6901.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
