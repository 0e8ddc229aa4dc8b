package proof

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/schema"
)

var (
	mutations     = flag.Int("mutations", 40, "ways in which TestMutations breaks each kind's schema")
	mutationKinds = flag.String("mutation-kinds", "^(shipped/At|features.txtar/Feature|phases.txtar/Job)$",
		"kinds that TestMutations is about; the larger a kind is, the more samples it takes to notice what is broken")
)

const (
	// mutationSamples is how many objects the CRD of a broken schema is tried with.
	mutationSamples = 300
	// objectsPerSample is how many objects a broken schema is tried with for each of
	// these: the evaluator is asked only once about each, for all schemas.
	objectsPerSample = 10
	// needed is the part of the broken schemas that has to be noticed. The others cannot be
	// noticed, like a bound that another rule implies.
	needed = 0.95
)

// TestMutations asks whether the comparison of TestDifferential would notice an error of
// the compiler: it breaks the compiled schema of a kind in one place at a time, and
// counts for how many of them an object shows it. It asks the same of the CRD alone,
// which may require less than the schema, so that there the score is only logged.
func TestMutations(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	about := regexp.MustCompile(*mutationKinds)
	for name, kinds := range corpusKinds(t) {
		for _, k := range kinds {
			full := name + "/" + k.GroupVersionKind.Kind
			if !about.MatchString(full) {
				continue
			}
			t.Run(full, func(t *testing.T) {
				t.Parallel()
				validator, crd := mutationScores(t, k)
				t.Logf("%s: validator: %s", full, validator)
				t.Logf("%s: CRD: %s", full, crd)
				require.GreaterOrEqual(t, validator.part(), needed, "errors that are noticed, survivors: %v", validator.survivors)
			})
		}
	}
}

// score counts what was noticed.
type score struct {
	noticed   int
	survivors []string
}

func (s *score) count(name string, noticed bool) {
	if noticed {
		s.noticed++
	} else {
		s.survivors = append(s.survivors, name)
	}
}

func (s *score) part() float64 {
	return float64(s.noticed) / float64(max(1, s.noticed+len(s.survivors)))
}

func (s *score) String() string {
	return fmt.Sprintf("%d of %d noticed (%.1f %%), survivors:\n  %s",
		s.noticed, s.noticed+len(s.survivors), 100*s.part(), strings.Join(s.survivors, "\n  "))
}

func mutationScores(t *testing.T, k load.Draft) (validator, crd *score) {
	objects := judgedSamples(k, mutationSamples*objectsPerSample)
	chosen := rand.New(rand.NewPCG(1, 1)).Perm(len(mutationsOf(copyOf(k.Compiled))))
	validator, crd = &score{}, &score{}
	for _, i := range chosen[:min(*mutations, len(chosen))] {
		mutant, change := mutateOnce(k, i)
		inCRD := false
		if !sameSchema(t, mutant.Schema, k.Schema) {
			n := len(objects)
			if !change.attribute {
				n = min(n, mutationSamples)
			}
			inCRD = crdShows(k, mutant, objects[:n])
			crd.count(change.name, inCRD)
		}
		// The evaluator ignores attributes.
		validator.count(change.name, change.attribute && inCRD || validatorShows(mutant, objects))
	}
	return validator, crd
}

// judged is an object with the right verdict.
type judged struct {
	object    map[string]any
	evaluator load.Evaluation
	problems  []kind.Problem // those that the original schema finds
}

// judgedSamples generates objects for a kind.
func judgedSamples(k load.Draft, n int) []judged {
	compiled, sample := withSchema(k, k.Compiled), sampler(k)
	var all []judged
	for seed := range uint64(n) {
		object := sample(seed)
		j := judged{object, load.Evaluate(compiled.Source, compiled.Version, object), compiled.Problems(object)}
		if load.Disagrees(compiled.Version, ofSchema(compiled, object), object, j.evaluator) == nil {
			all = append(all, j)
		}
	}
	return all
}

// validatorShows reports whether an object is judged differently by a broken schema and by
// CUE's evaluator.
func validatorShows(mutant load.Draft, objects []judged) bool {
	for _, j := range objects {
		if load.Disagrees(mutant.Version, ofSchema(mutant, j.object), j.object, j.evaluator) != nil {
			return true
		}
	}
	return false
}

// crdShows reports whether an object is judged differently by the CRD of a broken schema
// and by the schema as it was.
func crdShows(k, mutant load.Draft, objects []judged) bool {
	crd, err := newCRDOracle(mutant.Schema)
	if err != nil {
		return true
	}
	compiled := withSchema(k, k.Compiled)
	for _, j := range objects {
		if crdDisagrees(compiled, crd, j.problems, j.object) != nil {
			return true
		}
	}
	return false
}

func sameSchema(t *testing.T, a, b *apiextensionsv1.JSONSchemaProps) bool {
	x, err := json.Marshal(a)
	require.NoError(t, err)
	y, err := json.Marshal(b)
	require.NoError(t, err)
	return string(x) == string(y)
}

// mutateOnce returns a kind with a schema of its own, in which one thing is changed.
func mutateOnce(k load.Draft, i int) (load.Draft, mutation) {
	broken := copyOf(k.Compiled)
	change := mutationsOf(broken)[i]
	change.apply()
	prepareAll(reflect.ValueOf(broken), make(map[any]bool))
	mutant := withSchema(k, broken)
	load.SetOpenAPI(mutant.Version, nil)
	return mutant, change
}

// withSchema returns a kind with another schema.
func withSchema(k load.Draft, broken *schema.Schema) load.Draft {
	v := *k.Version
	v.Compiled = broken
	alone := *k.Kind
	with := load.Draft{Kind: &alone, Source: k.Source}
	with.Version, with.Versions = &v, []*kind.Version{&v}
	return with
}

// prepareAll prepares a schema and those that references lead to.
func prepareAll(v reflect.Value, seen map[any]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Interface()] {
			return
		}
		seen[v.Interface()] = true
		if s, ok := reflect.TypeAssert[*schema.Schema](v); ok {
			schema.Prepare(s)
		}
		prepareAll(v.Elem(), seen)
	case reflect.Slice:
		for i := range v.Len() {
			prepareAll(v.Index(i), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				prepareAll(v.Field(i), seen)
			}
		}
	}
}

// copyOf copies a schema with all that is in it, as it is before it is prepared: without
// the fields that are not exported, which only preparing sets.
func copyOf(s *schema.Schema) *schema.Schema {
	return copyValue(reflect.ValueOf(s), make(map[any]reflect.Value)).Interface().(*schema.Schema)
}

// copyValue keeps what is shared shared: a definition may contain itself.
func copyValue(v reflect.Value, copies map[any]reflect.Value) reflect.Value {
	copied := v
	switch v.Kind() {
	case reflect.Pointer:
		if _, immutable := reflect.TypeAssert[*regexp.Regexp](v); immutable || v.IsNil() {
			return v
		}
		if known, ok := copies[v.Interface()]; ok {
			return known
		}
		copied = reflect.New(v.Type().Elem())
		copies[v.Interface()] = copied
		copied.Elem().Set(copyValue(v.Elem(), copies))
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		copied = reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			copied.Index(i).Set(copyValue(v.Index(i), copies))
		}
	case reflect.Struct:
		copied = reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				copied.Field(i).Set(copyValue(v.Field(i), copies))
			}
		}
	}
	return copied
}
