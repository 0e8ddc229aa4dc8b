package proof

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	cueload "cuelang.org/go/cue/load"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

const constructsPage = `# What Fescue does not compile

For kind authors. A schema and a behaviour may use nearly all of CUE. The rest is a load error with the file, the line, and what to
write instead. The tables list each construct with its error.

<!-- Generated: go test ./cue/kind/proof -run TestConstructsPage -update -->

## Schemas

| the spec of a schema | the error |
|---|---|
%s
## Behaviours

| the status of a behaviour | the error |
|---|---|
%s
## Functions

Behaviours can call all functions of CUE but these:

| package | functions |
|---|---|
%s`

// docs/reference/constructs.md lists every construct that is not compiled: those of the archive uncompilable, and each function of CUE.
func TestConstructsPage(t *testing.T) {
	t.Parallel()
	schemas, behaviours := rejectedConstructs(t)
	var functions strings.Builder
	lacking := lackingFunctions(t)
	for _, path := range slices.Sorted(maps.Keys(lacking)) {
		fmt.Fprintf(&functions, "| `%s` | `%s` |\n", path, strings.Join(lacking[path], "`, `"))
	}
	corpus.Golden(t, "../../../docs/reference/constructs.md", fmt.Sprintf(constructsPage, rows(schemas), rows(behaviours), &functions))
}

var (
	// loadError is a line of out/load: its line in kind.cue, and what is wrong.
	loadError = regexp.MustCompile(`^DIR/kind\.cue:(\d+): (?:kind|decorator) \w+: (.*)\n$`)
	// builtin is the name of a function or a constant in the source of one of CUE's packages.
	builtin = regexp.MustCompile(`(?m)^\t\tName: +"(\w+)"`)
)

// construct is what a kind author may write, and the error.
type construct struct{ code, message string }

func rows(constructs []construct) string {
	var b strings.Builder
	cell := strings.NewReplacer("|", `\|`)
	for _, c := range constructs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", cell.Replace(c.code), cell.Replace(c.message))
	}
	return b.String()
}

// rejectedConstructs returns the constructs of the archive of kinds that are not compiled, in the order of their lines.
func rejectedConstructs(t *testing.T) (schemas, behaviours []construct) {
	archive := corpus.Read(t, "../../../testdata/kinds/uncompilable.txtar")
	files := make(map[string]string)
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	lines := strings.Split(files["kind.cue"], "\n")
	messages := make(map[int]string)
	for text := range strings.Lines(files["out/load"]) {
		found := loadError.FindStringSubmatch(text)
		require.NotNil(t, found, text)
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		messages[n] = found[2]
	}
	for _, n := range slices.Sorted(maps.Keys(messages)) {
		line := lines[n-1]
		if _, code, isSchema := strings.Cut(line, "spec!: "); isSchema {
			schemas = append(schemas, construct{strings.TrimSuffix(code, "}"), messages[n]})
			continue
		}
		if _, code, isBehaviour := strings.Cut(line, `s", status: `); isBehaviour { // the others are of the same constructs
			behaviours = append(behaviours, construct{strings.TrimSuffix(code, "}"), messages[n]})
		}
	}
	return schemas, behaviours
}

// lackingFunctions returns the functions and constants of CUE's packages that a behaviour cannot use.
func lackingFunctions(t *testing.T) map[string][]string {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "cuelang.org/go").Output()
	require.NoError(t, err)
	root := filepath.Join(strings.TrimSpace(string(dir)), "pkg")
	lacking := make(map[string][]string)
	require.NoError(t, filepath.WalkDir(root, func(file string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(file) != "pkg.go" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		_, rest, isPackage := strings.Cut(string(text), `pkg.Register("`)
		name, _, _ := strings.Cut(rest, `"`)
		if !isPackage || strings.HasPrefix(name, "tool/") { // those are for cue cmd
			return nil
		}
		for _, found := range builtin.FindAllStringSubmatch(string(text), -1) {
			if !canUse(t, name, found[1]) {
				lacking[name] = append(lacking[name], found[1])
			}
		}
		slices.Sort(lacking[name])
		return nil
	}))
	return lacking
}

func canUse(t *testing.T, path, name string) bool {
	overlay := map[string]cueload.Source{"/x/x.cue": cueload.FromString(fmt.Sprintf("package x\n\nimport p %q\n\nX: out: p.%s\n", path, name))}
	overlay["/x/cue.mod/module.cue"] = cueload.FromString("module: \"x.local@v0\"\nlanguage: version: \"v0.17.0\"\n")
	instance := cueload.Instances([]string{"."}, &cueload.Config{Dir: "/x", Overlay: overlay})[0]
	require.NoError(t, instance.Err)
	_, err := behaviour.Compile(instance, "X")
	if err != nil {
		require.ErrorContains(t, err, "p."+name+" cannot be used in a behaviour")
	}
	return err == nil
}
