package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
)

// bombs are kinds that take the CUE evaluator minutes or gigabytes, by a schema, a behaviour and
// what else is in the package. The keys are their names.
var bombs = map[string]struct{ schema, behaviour, rest string }{
	"DisjunctionOfAList":     {schema: `re?: or(list.Range(0, 100000, 1))`},
	"LoopsInTheSchema":       {schema: `x?: len([for a in _forty for b in _forty for c in _forty for d in _forty for e in _forty {e}])`},
	"LoopsInTheBehaviour":    {behaviour: `status: x: len([for a in _forty for b in _forty for c in _forty for d in _forty for e in _forty {e}])`},
	"LongList":               {behaviour: `status: x: len(list.Range(0, 1e7, 1))`},
	"LongListInTheSchema":    {schema: `x: *len(list.Range(0, 1e7, 1)) | int`},
	"DoublingDefinitions":    {schema: `x?: #D24`, rest: doubling(24)},
	"ProductInTheSchema":     {schema: "x?: " + product(14)},
	"ProductInTheBehaviour":  {behaviour: "status: x: " + product(14)},
	"LoopsWithinEachOther":   {schema: `x?: {for a in _forty {"a\(a)": {for b in _forty {"b\(b)": {for c in _forty {"c\(c)": {for d in _forty {"d\(d)": int}}}}}}}}`},
	"ListOfLists":            {behaviour: `status: x: len(list.FlattenN(list.Repeat([list.Repeat([0], 10000)], 10000), -1))`},
	"RepeatedText":           {behaviour: `status: x: len(strings.Repeat(strings.Repeat("x", 1000000), 100000))`},
	"TextInAText":            {behaviour: `status: x: len(_t30)`, rest: texts(30)},
	"Shift":                  {behaviour: `status: x: len("\(bits.Lsh(1, 10000000000))")`},
	"Template":               {behaviour: `status: x: len(template.Execute("{{range .}}{{range $}}{{range $}}{{range $}}{{range $}}x{{end}}{{end}}{{end}}{{end}}{{end}}", _forty))`},
	"Sort":                   {behaviour: `status: x: len(list.Sort(list.Range(0, 300000, 1), {x: _, y: _, less: x > y}))`},
	"ManyPatterns":           {schema: `x?: {for i in list.Range(0, 3000, 1) {"a\(i)": {for j in list.Range(0, 3000, 1) {"b\(j)"?: string}}}}`},
	"UnificationOfLongLists": {behaviour: `status: x: [for i in list.Range(0, 200000, 1) {a: i}] & [for i in list.Range(0, 200000, 1) {a: i}]`},
}

// doubling writes definitions that each hold the former twice.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("#D0: a: 1\n")
	for i := range n {
		fmt.Fprintf(&b, "#D%d: {a: #D%d, b: #D%d}\n", i+1, i, i)
	}
	return b.String()
}

// product writes the unification of three-way disjunctions.
func product(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("({a%d: 1} | {b%d: 1} | {c%d: 1})", i, i, i)
	}
	return strings.Join(parts, " & ")
}

// texts writes texts that each hold the former twice.
func texts(n int) string {
	var b strings.Builder
	b.WriteString("_t0: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\n")
	for i := range n {
		fmt.Fprintf(&b, "_t%d: \"\\(_t%d)\\(_t%d)\"\n", i+1, i, i)
	}
	return b.String()
}

// kindsFolder writes a folder with a kind that loads, Good, and some bombs.
func kindsFolder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString(`package k

import (
	"list"
	"math"
	"math/bits"
	"strings"
	"text/template"
	"fescue.dev/cue/contract"
)

#Good: {apiVersion!: "bounds.example.com/v1", kind!: "Good", metadata!: {...}, spec!: {}, status?: contract.#Status}
#GoodController: contract.#Controller & {object!: #Good, names: plural: "goods"}

_forty: [for i in list.Range(0, 40, 1) {i}]
_used: [list.MaxItems, math.Pi, bits.Len, strings.MinRunes, template.Execute]
`)
	for _, name := range names {
		bomb := bombs[name]
		text.WriteString(strings.NewReplacer("NAME", name, "PLURAL", strings.ToLower(name), "SCHEMA", bomb.schema, "BEHAVIOUR", bomb.behaviour, "REST", bomb.rest).Replace(`
#NAME: {
	apiVersion!: "bounds.example.com/v1"
	kind!:       "NAME"
	metadata!: {...}
	spec!: {SCHEMA}
	status?: {contract.#Status, x?: _}
}
#NAMEController: contract.#Controller & {
	object!: #NAME
	names: plural: "PLURAL"
	BEHAVIOUR
}
REST
`))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kinds.cue"), []byte(text.String()), 0o600))
	return dir
}

// Whatever a kind contains, the program ends soon, says which kind it is, and loads the others of its folder.
func TestKindsThatCannotBeLoaded(t *testing.T) {
	if testing.Short() {
		t.Skip("each takes seconds of CPU time")
	}
	t.Parallel()
	names := slices.Sorted(maps.Keys(bombs))
	out := fescue(t, "crd", "--shipped-kinds=false", "--kinds", kindsFolder(t, names...), "--load-timeout", "500ms")
	require.Equal(t, 1, strings.Count(out, "kind: CustomResourceDefinition"), out)
	require.Contains(t, out, "name: goods.bounds.example.com")
	for _, name := range names {
		require.Regexp(t, `error: .*kinds\.cue:\d+: kind `+name+`: loading takes (longer than 500ms of CPU time|longer than 15s|more than 256 MiB of memory|more than the process survives)`, out)
	}
}

// A folder whose only kind cannot be loaded has nothing to load.
func TestOnlyKindCannotBeLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kind.cue"), []byte(`package k

import (
	"list"
	"fescue.dev/cue/contract"
)

#Bad: {apiVersion!: "bounds.example.com/v1", kind!: "Bad", metadata!: {...}, spec!: {}, status?: {contract.#Status, x?: int}}
#BadController: contract.#Controller & {
	object!: #Bad
	names: plural: "bads"
	status: x: len(list.Range(0, 1000000000, 1))
}
`), 0o600))
	out := fescue(t, "vet", "--shipped-kinds=false", "--kinds", dir, "--load-timeout", "1s")
	require.Regexp(t, `^[^\n]*kind\.cue:\d+: kind Bad: loading takes [^\n]*: make its schema and its behaviour smaller \[load-limit\]\n$`, out)
}

// The kinds of a folder that take a short time do not wait for the others, nor does one folder for
// another.
func TestKindsLoadedBeforeOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds of CPU time")
	}
	t.Parallel()
	dir := kindsFolder(t, "LoopsInTheBehaviour")
	path, err := exec.LookPath("fescue")
	require.NoError(t, err)
	var parts []load.Folder
	require.NoError(t, (&loader{path, path, time.Second, false}).probe(t.Context(), dir, func(part load.Folder) {
		if len(parts) == 0 {
			require.Empty(t, part.Broken, "the first part comes before the slow kind is given up")
		}
		parts = append(parts, part)
	}))
	require.Len(t, parts, 2)
	require.Equal(t, []string{"Good"}, parts[0].Only)
	require.True(t, parts[1].Selected)
	require.Empty(t, parts[1].Only)
	require.Len(t, parts[1].Broken, 1)
}

// fescue runs the program and returns its output.
func fescue(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	path, err := exec.LookPath("fescue")
	require.NoError(t, err)
	out, _ := exec.CommandContext(ctx, path, args...).CombinedOutput()
	require.NoError(t, ctx.Err(), "the program does not end")
	return string(out)
}
