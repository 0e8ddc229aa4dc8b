package behaviour

import (
	"encoding/base64"

	"cuelang.org/go/cue/token"
)

// export returns a value as plain data: structs, lists, strings, int64, float64, bool and nil. The
// result shares no memory with objects.
func (r *run) export(value any) (any, *Problem) {
	r.step()
	if n, ok := value.(*node); ok {
		var problem *Problem
		if value, problem = n.value(r); problem != nil {
			return nil, problem
		}
		if n, ok := value.(*node); ok {
			return n.export(r)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(v))
		for name, field := range v {
			exported, problem := r.export(field)
			if problem != nil {
				return nil, problem
			}
			result[name] = exported
		}
		return result, nil
	case []any:
		result := make([]any, len(v))
		for i, element := range v {
			exported, problem := r.export(element)
			if problem != nil {
				return nil, problem
			}
			result[i] = exported
		}
		return result, nil
	case *Decimal:
		number, message := plain(v)
		if message != "" {
			return nil, problemAt(token.NoPos, "%s %s", numberText(v), source(message))
		}
		return number, nil
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	}
	return value, nil
}

func (n *node) export(r *run) (any, *Problem) {
	r.enter()
	defer r.leave()
	var worst *Problem
	if kindOf(n) == List {
		length, problem := r.length(n)
		if problem != nil {
			return nil, problem
		}
		result := make([]any, length)
		for i := range result {
			element, problem := r.export(r.element(n, i))
			worst = join(worst, problem)
			result[i] = element
		}
		if worst != nil {
			return nil, worst
		}
		return result, nil
	}
	names, worst := n.fields(r)
	worst = worse(worst, n.missing(r))
	result := make(map[string]any, len(names))
	for _, name := range names {
		field, problem := r.export(n.field(r, name))
		worst = join(worst, problem)
		result[shown(name)] = field
	}
	if worst != nil {
		return nil, worst
	}
	return result, nil
}
