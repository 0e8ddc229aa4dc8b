package load

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cuelang.org/go/mod/modfile"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// The program's name and language version of its module are those of cue.mod.
func TestModuleIsTheRepositorys(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../cue.mod/module.cue")
	require.NoError(t, err)
	f, err := modfile.Parse(b, "module.cue")
	require.NoError(t, err)
	require.Equal(t, place.ModulePath+"@v0", f.Module)
	require.Equal(t, languageVersion, f.Language.Version)
}

func TestShipped(t *testing.T) {
	t.Parallel()
	kinds, err := ShippedDrafts()
	require.NoError(t, err)
	require.Len(t, kinds, 3)
	at, cluster, watcher := kinds[0], kinds[1], kinds[2]
	require.Equal(t, apischema.GroupVersionKind{Group: "watch.fescue.dev", Version: "v1alpha1", Kind: "Watcher"}, watcher.GroupVersionKind)
	require.Empty(t, watcher.Initial)
	require.Empty(t, watcher.Phases)
	require.Equal(t, []apischema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}, watcher.Owns)
	require.Equal(t, apischema.GroupVersionKind{Group: "cnat.fescue.dev", Version: "v1alpha1", Kind: "At"}, at.GroupVersionKind)
	require.Equal(t, "PENDING", at.Initial)
	require.Equal(t, map[string]kind.PhaseFacts{
		"PENDING": {Lives: true}, "RUNNING": {Lives: true}, "DONE": {Terminal: true, Lives: true},
	}, at.Phases)
	require.Equal(t, []apischema.GroupVersionKind{{Version: "v1", Kind: "Pod"}}, at.Owns)
	require.Equal(t, apischema.GroupVersionKind{Group: "samplecontroller.fescue.dev", Version: "v1alpha1", Kind: "Customcluster"}, cluster.GroupVersionKind)
	require.Equal(t, map[string]kind.SetFacts{"pods": {Type: at.Owns[0], StrayLabels: []string{"controller"}}}, cluster.Sets)
}

// Every kind that is shipped can be named by a manifest that mixes kinds.
func TestRegistryHasAllKinds(t *testing.T) {
	t.Parallel()
	kinds, err := ShippedDrafts()
	require.NoError(t, err)
	registry, err := os.ReadFile("../../registry.cue")
	require.NoError(t, err)
	for _, k := range kinds {
		apiVersion, name := k.GroupVersionKind.ToAPIVersionAndKind()
		require.Regexp(t, regexp.QuoteMeta(`"`+apiVersion+"/"+name+`":`)+" +#"+name, string(registry))
	}
}

func TestFromDirNamesTheError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Drafts(dir)
	require.EqualError(t, err, "kinds folder "+dir+" has no file whose name ends in .cue")
	file := filepath.Join(dir, "k.cue")
	require.NoError(t, os.WriteFile(file, []byte("package k\n\nimport \"example.com/signs\"\n\n#A: signs.#B\n"), 0o600))
	_, err = Drafts(dir)
	require.EqualError(t, err, file+`:3: cannot find package "example.com/signs": cannot find module providing package example.com/signs`)
}

// A kinds folder may be part of a CUE module of its own, and import from it.
func TestFromDirInAnotherModule(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("cue.mod/module.cue", "module: \"acme.example@v0\"\nlanguage: version: \"v0.17.0\"\n")
	write("lib/lib.cue", "package lib\n#Size: \"small\" | \"large\"\n")
	write("kinds/shirt.cue", `package shirts

import (
	"acme.example/lib"
	"fescue.dev/cue/contract"
)

#Shirt: {apiVersion!: "acme.example/v1", kind!: "Shirt", metadata!: {...}, spec!: size!: lib.#Size, status?: contract.#Status}
#ShirtController: contract.#Controller & {object!: #Shirt, names: plural: "shirts"}
`)
	kinds, err := Drafts(filepath.Join(root, "kinds"))
	require.NoError(t, err)
	require.Len(t, kinds, 1)
	require.Len(t, kinds[0].Schema.Properties["spec"].Properties["size"].Enum, 2)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	kinds, err := ShippedDrafts()
	require.NoError(t, err)
	deep := map[string]any{}
	for inner, i := deep, 0; i < kind.MaxObjectDepth+1; i++ {
		next := map[string]any{}
		inner["a"] = next
		inner = next
	}
	many := make(map[string]any)
	list := make([]any, kind.MaxObjectValues)
	many["list"] = list
	for name, tc := range map[string]struct {
		object map[string]any
		want   string
	}{
		"deep": {map[string]any{"spec": deep}, "must not be nested deeper than 128 levels"},
		"many": {map[string]any{"spec": many}, "must not have more than 1572864 values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := kinds[0].Validate(tc.object)
			require.Len(t, errs, 1)
			require.True(t, strings.HasPrefix(errs[0].Field, "spec."), errs[0].Field)
			require.Equal(t, tc.want, errs[0].Detail)
		})
	}
}

func TestParseTrigger(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "5", "-5m", "2030-01-01", "2030-13-01T00:00:00Z"} {
		_, err := kind.ParseTrigger(text)
		require.Error(t, err, text)
		require.Contains(t, err.Error(), text)
	}
}

// TestDependenciesCannotBeFetched uses a registry to which no connection is possible.
func TestDependenciesCannotBeFetched(t *testing.T) {
	t.Setenv("CUE_REGISTRY", "127.0.0.1:1+insecure")
	dir := corpus.Unpack(t, &txtar.Archive{Files: []txtar.File{
		{Name: "cue.mod/module.cue", Data: []byte(`module: "example.com/my@v0", language: version: "v0.17.0", deps: "example.com/other@v0": v: "v0.1.0"`)},
		{Name: "kind.cue", Data: []byte(`package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}}
#GController: contract.#Controller & {object!: #G, names: plural: "gs"}
`)},
	}})
	_, err := Drafts(dir)
	require.ErrorContains(t, err, "kind.cue:2: the dependencies in cue.mod/module.cue cannot be fetched: example.com/other@v0.1.0: ")
}

// A wrong line breaks the kinds that it is part of, and no other.
func TestOneKindHidesNoOther(t *testing.T) {
	t.Parallel()
	const kinds = `package k
import "fescue.dev/cue/contract"
#A: {apiVersion!: "try.example.com/v1", kind!: "A", metadata!: {...}, spec!: {text!: string}, status?: contract.#Status}
#AController: contract.#Controller & {object!: #A, names: plural: "as"}
#B: {apiVersion!: "try.example.com/v1", kind!: "B", metadata!: {...}, spec!: {text!: string}, status?: contract.#Status}
#BController: contract.#Controller & {
	object!: #B
	names: plural: "bs"
	BEHAVIOUR
}
REST
`
	for name, tc := range map[string]struct{ behaviour, rest, other, want string }{
		"unresolved reference": {behaviour: `status: x: obj.spec.text`, want: `kind.cue:9: kind B: #BController.status.x: reference "obj" not found`},
		"unused reference":     {rest: `_x: y`, want: `kind.cue:11: _x: reference "y" not found`},
		"fatal":                {behaviour: `status: {<5, x: 1}`, want: `kind.cue:9: kind B: a bound cannot be alone in a struct`},
		"panic":                {behaviour: `status: x: "a"()`, want: `kind B: `},
		"syntax":               {other: "package k\n#C: {\n", want: `other.cue:2: expected`},
		"import":               {other: "package k\nimport \"nowhere.example.com/x\"\n_y: x.#X\n", want: `other.cue:2: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := corpus.Folder(t, strings.NewReplacer("BEHAVIOUR", tc.behaviour, "REST", tc.rest).Replace(kinds))
			if tc.other != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "other.cue"), []byte(tc.other), 0o600))
			}
			loaded, err := Drafts(dir)
			require.ErrorContains(t, err, tc.want)
			var names []string
			for _, k := range loaded {
				names = append(names, k.GroupVersionKind.Kind)
			}
			require.Contains(t, names, "A")
			if strings.Contains(tc.want, "kind B") {
				require.NotContains(t, names, "B")
			} else {
				require.Contains(t, names, "B")
			}
			require.Len(t, strings.Split(err.Error(), "\n"), 1, "one line, one error")
		})
	}
}

// What a field with a quoted name has is not part of the definition.
func TestQuotedDefinitionIsRejected(t *testing.T) {
	t.Parallel()
	_, err := draftsOf(t, `package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, status?: contract.#Status}
#GController: contract.#Controller & {object!: #G, names: plural: "gs"}
"#GController": children: pod: template: {apiVersion: "v1", kind: "ConfigMap"}
#H: {apiVersion!: "try.example.com/v1", kind!: "H", metadata!: {...}, status?: contract.#Status}
#HController: contract.#Controller & {object!: #H, names: plural: "hs"}
`)
	require.ErrorContains(t, err, `kind.cue:5: kind G: "#GController" in quotes is a field like any other, not the definition #GController: write it without quotes`)
	require.NotContains(t, err.Error(), "kind H")
}

// A kind whose child is of a kind in another folder is checked against that, whichever folder comes first: which one a
// program tries first depends on how long that takes.
func TestFoldersKnowEachOther(t *testing.T) {
	t.Parallel()
	folder := func(name, behaviour string) string {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "kind.cue"), []byte(fmt.Sprintf(`package k

import "fescue.dev/cue/contract"

#%[1]s: {
	apiVersion!: "folders.example.com/v1", kind!: "%[1]s", metadata!: {name!: string, ...}
	spec: {size: *1 | int}
	status?: contract.#Status
}
#%[1]sController: contract.#Controller & {
	object!: #%[1]s
	names: plural: "%[2]ss"
	%[3]s
}
`, name, strings.ToLower(name), behaviour)), 0o600))
		return dir
	}
	inner := folder("Inner", "")
	outer := folder("Outer", `children: inner: template: {apiVersion: "folders.example.com/v1", kind: "Inner", spec: sise: 2}`)
	for _, dirs := range [][]string{{inner, outer}, {outer, inner}} {
		kinds, err := All(false, dirs...)
		require.NoError(t, err)
		require.ErrorContains(t, kinds.BrokenError(), "children.inner.template.spec.sise: unknown field; did you mean size?")
		require.Len(t, kinds.Added(), 1)

		kinds = NewKinds()
		for _, dir := range dirs {
			_, err := kinds.AddFolder(Folder{Dir: dir})
			require.NoError(t, err)
		}
		require.NoError(t, kinds.BrokenError())
		require.Len(t, kinds.Added(), 1, "the inner kind waits for no other")
		_, err = kinds.AddWaiting()
		require.NoError(t, err)
		require.ErrorContains(t, kinds.BrokenError(), "children.inner.template.spec.sise: unknown field; did you mean size?")
		require.Len(t, kinds.Added(), 1)
	}
}

// One file that cannot be read hides no kind of another.
func TestListIsOfReadableFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.cue": "package kinds\n#A: {}\n#AController: {}\n",
		"b.cue": "package kinds\n#B: {x: 5 y}\n#BController: {}\n",
		"c.cue": "package kinds\n#C: {}\n#CController: {}\n",
		"d.cue": "package kinds\nimport \"nowhere.example.com/a\"\n#D: a\n#DController: {}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	listed, err := List(dir)
	require.NoError(t, err)
	require.Len(t, listed, 2)
	require.Equal(t, []string{"A", "C"}, []string{listed[0].Name, listed[1].Name})
}
