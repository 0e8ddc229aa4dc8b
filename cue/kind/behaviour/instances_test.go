package behaviour

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is prepared for all runs is not changed by one: neither what it adds, nor its budget.
func TestRunsShareNothing(t *testing.T) {
	t.Parallel()
	program, err := Compile(instanceOf(t, `package p

import "struct"

#C: {
	object: _
	few: struct.MaxFields(2) & {
		a: 1
		if object.more {b: 2}
		for n in object.names {(n): 3}
	}
	some: {
		#A
		#B
		#D
		if object.more {#E}
		if !object.more {#F}
	}
	#A: a: 1
	#B: b: 1
	#D: d: 1
	#E: e: 1
	#F: f: 1
}
`), "#C")
	require.NoError(t, err)
	few := map[string]any{"more": true, "names": []any{}}
	many := map[string]any{"more": false, "names": []any{"x", "y"}}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 5000 {
				data, problem := program.Run(few, nil).Lookup("few").Data()
				if problem != nil || len(data.(map[string]any)) != 2 {
					t.Errorf("%v %v", data, problem)
					return
				}
				if _, problem = program.Run(many, nil).Lookup("few").Data(); problem == nil {
					t.Error("it has three fields")
					return
				}
				for object, want := range map[string]map[string]any{"e": few, "f": many} {
					data, problem := program.Run(want, nil).Lookup("some").Data()
					if problem != nil || data.(map[string]any)[object] != int64(1) || len(data.(map[string]any)) != 4 {
						t.Errorf("%v %v", data, problem)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	require.False(t, t.Failed())
}
