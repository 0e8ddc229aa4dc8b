package load_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// A kind whose children lead back to it without end is not loaded, and its siblings are. Where something may end that,
// vet advises.
func TestChildrenThatLeadBack(t *testing.T) {
	t.Parallel()
	const one = `
#NAME: {apiVersion!: "cycle.example.com/v1", kind!: "NAME", metadata!: {name!: string, ...}, spec: {more: *false | bool}, status?: contract.#Status}
#NAMEController: contract.#Controller & {
	object!: #NAME
	names: plural: "PLURALs"
	owns: [{apiVersion: "cycle.example.com/v1", kind: "OWNED"}]
	children: {CHILD}
}
`
	next := map[string]string{"Self": "Self", "Ping": "Pong", "Pong": "Ping"}
	kindOf := func(name, child string) string {
		return strings.NewReplacer("NAME", name, "PLURAL", strings.ToLower(name), "CHILD", child, "OWNED", next[name]).Replace(one)
	}
	childOf := func(name string) string {
		return `next: template: {apiVersion: "cycle.example.com/v1", kind: "` + name + `", spec: more: true}`
	}
	const decorators = `
#SecretsDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "ConfigMap", SELECTS}
	object: _
	children: next: template: {apiVersion: "v1", kind: "Secret", metadata: labels: cycle: "yes"}
}
#ConfigsDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "Secret", SELECTS}
	object: _
	children: next: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: cycle: "yes"}
}
`
	for name, test := range map[string]struct{ cue, err, advice string }{
		"itself":                   {kindOf("Self", childOf("Self")), "kind Self: children.next: its objects create objects without end, Self → Self: put an if around one of these children", ""},
		"two kinds":                {kindOf("Ping", childOf("Pong")) + kindOf("Pong", childOf("Ping")), "its objects create objects without end, ", ""},
		"an if may end it":         {kindOf("Self", "if object.spec.more {"+childOf("Self")+"}"), "", "its objects can create objects that lead back to themselves, Self → Self"},
		"a when may":               {kindOf("Self", strings.Replace(childOf("Self"), "next: ", "next: when: object.spec.more\nnext: ", 1)), "", "Self → Self"},
		"a when that always holds": {kindOf("Self", strings.Replace(childOf("Self"), "next: ", "next: when: true\nnext: ", 1)), "Self → Self", ""},
		"a number of members":      {kindOf("Self", strings.Replace(childOf("Self"), "next: ", "next: replicas: 2\nnext: ", 1)), "Self → Self", ""},
		"no members":               {kindOf("Self", strings.Replace(childOf("Self"), "next: ", "next: replicas: 0\nnext: ", 1)), "", "Self → Self"},
		"a name of each object":    {kindOf("Self", strings.Replace(childOf("Self"), "spec: more", `metadata: name: "x" + object.metadata.name, spec: more`, 1)), "Self → Self", ""},
		"an interpolated name":     {kindOf("Self", strings.Replace(childOf("Self"), "spec: more", `metadata: name: "x\(object.metadata.name)", spec: more`, 1)), "Self → Self", ""},
		"one of two may end it":    {kindOf("Ping", childOf("Pong")) + kindOf("Pong", "if object.spec.more {"+childOf("Ping")+"}"), "", "lead back to themselves, "},
		"one name":                 {kindOf("Self", strings.Replace(childOf("Self"), "spec: more", `metadata: name: "x", spec: more`, 1)), "", "Self → Self"},
		"a chain that ends":        {kindOf("Ping", childOf("Pong")) + kindOf("Pong", `next: template: {apiVersion: "v1", kind: "ConfigMap"}`), "", ""},
		"what it reads": {strings.NewReplacer(`"Self"}]`, `"Self"}, {apiVersion: "v1", kind: "ConfigMap"}]`, "children:", `reads: all: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: a: "b"}`+"\nobserved: _\nchildren:").
			Replace(kindOf("Self", `for s in observed.all {"\(s.metadata.name)": template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "\(s.metadata.name)x"}}`)),
			"", "reads.all: selects objects of a type that the kind creates, ConfigMap: see that the selector leaves those out, or that what is created does not grow"},
		"decorators":                 {strings.ReplaceAll(decorators, ", SELECTS", ""), "its objects create objects without end, ", ""},
		"decorators of one type":     {strings.NewReplacer(", SELECTS", "", `kind: "Secret"`, `kind: "ConfigMap"`).Replace(decorators), "its objects create objects without end, ConfigMap → ConfigMap → ConfigMap", ""},
		"a decorator's own children": {strings.Split(strings.ReplaceAll(strings.ReplaceAll(decorators, ", SELECTS", ""), `kind: "Secret"`, `kind: "ConfigMap"`), "#Configs")[0], "", ""},
		"decorators that select":     {strings.ReplaceAll(decorators, "SELECTS", `selector: matchLabels: cycle: "yes"`), "", "lead back to themselves, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			catalog, err := load.All(false, corpus.Folder(t, "package cycle\n\nimport \"fescue.dev/cue/contract\"\n"+test.cue))
			require.NoError(t, err)
			if test.err != "" {
				require.ErrorContains(t, catalog.BrokenError(), test.err)
				require.Len(t, catalog.Broken(), 1)
				return
			}
			require.NoError(t, catalog.BrokenError())
			var advice []string
			for _, k := range catalog.Behaviours() {
				for _, a := range k.Advice {
					if strings.Contains(a.Text, "lead back") || strings.Contains(a.Text, "selects objects") {
						advice = append(advice, a.Text)
					}
				}
			}
			if test.advice == "" {
				require.Empty(t, advice)
				return
			}
			require.Len(t, advice, 1)
			require.Contains(t, advice[0], test.advice)
		})
	}
}
