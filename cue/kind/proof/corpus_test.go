package proof

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// TestCorpus loads the kinds of each archive, and validates, defaults and decides for
// each of its objects. out/load, out/schema and out/OBJECT hold what is expected, and
// out/OBJECT.VERSION the object in the other versions of a kind with conversions, with what they lose.
func TestCorpus(t *testing.T) {
	t.Parallel()
	corpus.Run(t, "testdata/kinds", resultsOf)
}

func resultsOf(t *testing.T, inputs *txtar.Archive) []txtar.File {
	dir := corpus.Unpack(t, inputs)
	data := make(map[string][]byte)
	for _, f := range inputs.Files {
		data[f.Name] = f.Data
	}
	kinds, err := load.Drafts(dir)
	var load strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&load, "%s: %s, children %v\n", k.GroupVersionKind.Kind, k.GroupVersionResource(), k.Owns)
	}
	if err != nil {
		fmt.Fprintln(&load, strings.ReplaceAll(err.Error(), dir, "DIR"))
	}
	results := []txtar.File{{Name: "out/load", Data: []byte(load.String())}}
	if len(kinds) != 1 {
		return results
	}
	k := kinds[0]
	results = append(results, txtar.File{Name: "out/schema", Data: corpus.YAML(t, k.Schema)})
	for _, f := range inputs.Files {
		name, isObject := strings.CutSuffix(f.Name, ".yaml")
		if isObject {
			result := strings.ReplaceAll(resultOf(t, k, corpus.Object(t, f.Data), corpus.Object(t, data[name+".observed"])), dir, "DIR")
			results = append(results, txtar.File{Name: "out/" + name, Data: []byte(result)})
			for _, converted := range conversionsOf(t, k, name, corpus.Object(t, f.Data)) {
				converted.Data = bytes.ReplaceAll(converted.Data, []byte(dir), []byte("DIR"))
				results = append(results, converted)
			}
		}
	}
	return results
}

// conversionsOf converts an object to all other versions of its kind.
func conversionsOf(t *testing.T, k load.Draft, name string, object map[string]any) (results []txtar.File) {
	if !k.Versions.Converts() {
		return nil
	}
	for _, v := range k.Versions {
		if object["apiVersion"] == v.GroupVersionKind.GroupVersion().String() {
			continue
		}
		converted, lost, err := k.Versions.Convert(k.NewBudget(), object, v.GroupVersionKind.GroupVersion().String())
		text := corpus.YAML(t, converted)
		for _, err := range lost {
			text = append(text, "# "+err.Error()+"\n"...)
		}
		if err != nil {
			text = []byte(err.Error() + "\n")
		}
		results = append(results, txtar.File{Name: "out/" + name + "." + v.GroupVersionKind.Version, Data: text})
	}
	return results
}

// resultOf returns what is wrong with an object, or its defaulted form and the decision.
func resultOf(t *testing.T, k load.Draft, object, observed map[string]any) string {
	if errs := k.Validate(object); len(errs) > 0 {
		var lines []string
		for _, err := range errs {
			lines = append(lines, err.Error())
		}
		return strings.Join(lines, "\n") + "\n"
	}
	defaulted, errs := k.Versions.ToStored(k.NewBudget(), k.Default(object))
	require.Empty(t, errs)
	decision, err := k.Decide(k.NewBudget(), defaulted, observed)
	if err != nil {
		var evaluation *kind.EvaluationError
		require.ErrorAs(t, err, &evaluation)
		return err.Error() + "\n"
	}
	var next []string
	for _, transition := range decision.Next {
		text := fmt.Sprintf("%s when %t", transition.To, transition.When)
		if transition.After != nil {
			entered := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			text += fmt.Sprintf(" at %s if entered at %s", transition.After.Due(entered).Format(time.RFC3339), entered.Format(time.RFC3339))
		}
		next = append(next, text)
	}
	result := map[string]any{"spec": defaulted["spec"], "children": decision.Children, "next": next, "status": decision.Status}
	if len(decision.Undecided) > 0 {
		result["undecided"] = decision.Undecided
	}
	if len(decision.Conditions) > 0 {
		result["conditions"] = decision.Conditions
	}
	if len(k.Lookups) > 0 {
		lookups, err := k.LookupsOf(k.NewBudget(), defaulted)
		if err != nil {
			var evaluation *kind.EvaluationError
			require.ErrorAs(t, err, &evaluation)
			return err.Error() + "\n"
		}
		result["reads"] = lookupTexts(lookups)
	}
	if k.Injects() {
		injection, err := k.Injection(k.NewBudget(), defaulted)
		if err != nil {
			var evaluation *kind.EvaluationError
			require.ErrorAs(t, err, &evaluation)
			return err.Error() + "\n"
		}
		result["inject"] = injection
	}
	return string(corpus.YAML(t, result))
}

// lookupTexts describes what a behaviour reads.
func lookupTexts(lookups []kind.Lookup) (texts []string) {
	for _, l := range lookups {
		text := l.Name + ": " + l.Type.Kind + " "
		if l.Namespace != nil {
			text += *l.Namespace + "/"
		}
		switch {
		case len(l.Absent) > 0:
			text += kind.WaitingFor(l.Absent)
		case l.Selector != nil:
			text += "with " + l.Selector.String()
		default:
			text += l.ObjectName
		}
		texts = append(texts, text)
	}
	return texts
}
