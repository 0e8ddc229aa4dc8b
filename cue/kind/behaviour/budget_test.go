package behaviour

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// doubled returns an expression of n lines whose text has 2^n parts.
func doubled(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x%d: x%d + x%d, ", i+1, i, i)
	}
	return fmt.Sprintf("{x0: '0123456789abcdef', %s}.x%d", &b, n)
}

// A behaviour that would take 10^9 steps, or as much memory, fails within 100 ms.
func TestBudget(t *testing.T) {
	for _, expression := range []string{
		`len([for a in object.spec.items for b in object.spec.items for c in object.spec.items {1}])`,
		`len(list.Range(0, 1000000000, 1))`,
		`len(list.Repeat(list.Range(0, 1000, 1), 1000000))`,
		`len(strings.Repeat(object.spec.text, 1000000))`,
		`len(object.spec.text * 1000000)`,
		`len(strings.Replace(object.spec.text, "", object.spec.text, -1))`,
		`len(strings.Join(strings.Split(object.spec.text, ""), object.spec.text))`,
		`len(regexp.ReplaceAll("x*", object.spec.text, object.spec.text))`,
		`{x0: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", x1: "\(x0)\(x0)\(x0)\(x0)\(x0)\(x0)\(x0)\(x0)", x2: "\(x1)\(x1)\(x1)\(x1)\(x1)\(x1)\(x1)\(x1)", x3: "\(x2)\(x2)\(x2)\(x2)\(x2)\(x2)\(x2)\(x2)", x4: "\(x3)\(x3)\(x3)\(x3)\(x3)\(x3)\(x3)\(x3)", x5: "\(x4)\(x4)\(x4)\(x4)\(x4)\(x4)\(x4)\(x4)", x6: "\(x5)\(x5)\(x5)\(x5)\(x5)\(x5)\(x5)\(x5)", x7: "\(x6)\(x6)\(x6)\(x6)\(x6)\(x6)\(x6)\(x6)"}.x7`,
		`template.Execute("{{range .}}{{range $}}{{range $}}{{end}}{{end}}{{end}}", object.spec.items)`,
		`template.Execute(object.spec.template, {})`,
		`strconv.FormatFloat(1.5, 102, 1000000000, 64)`,
		`#T`,
		`json.Indent(object.spec.json, "", object.spec.text)`,
		`list.UniqueItems(list.Range(0, 100000, 1))`,
		`list.Sort(list.Range(0, 200000, 1), list.Descending)`,
		`[for a in object.spec.items {sha256.Sum256(object.spec.text)}]`,
		`[for a in object.spec.items {strings.Contains(object.spec.text, "b")}]`,
		`[for a in object.spec.items {object.spec.text == object.spec.other}]`,
		`[for a in object.spec.items {time.Parse(time.RFC3339, object.spec.text)}]`,
		`[for a in object.spec.items {json.Unmarshal(object.spec.document)}]`,
		`[for a in object.spec.items {yaml.Marshal(object.spec.items)}]`,
		`[for a in object.spec.items for b in object.spec.items {math.Log(b)}]`,
		`[for a in object.spec.items {object.spec.text =~ "b$"}]`,
		doubled(40),
		`uuid.ToInt(object.spec.text)`,
		`{for k in list.Range(0, 40000, 1) {"k\(k)": k}}`,
		`{for k in list.Range(0, 3000, 1) {#T1, "k\(k)": k, ...}}`,
	} {
		t.Run(expression, func(t *testing.T) {
			program, err := Compile(instanceOf(t, packageWith(expression+"\n\t---\n#T: {t: #T}\n#T1: {a: 1, ...}")), "X")
			require.NoError(t, err)
			items := make([]any, 1000)
			for i := range items {
				items[i] = int64(i)
			}
			object := map[string]any{"spec": map[string]any{
				"items": items, "text": strings.Repeat("a", 1<<20), "json": strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
				"other": strings.Repeat("a", 1<<20-1) + "b", "document": "[" + strings.Repeat(`{"a": 1}, `, 1000) + "1]",
				"template": `{{define "a"}}{{template "a"}}{{template "a"}}{{end}}{{template "a"}}`,
			}}
			start := time.Now()
			_, problem := program.Run(budget.New("X"), object, nil).Lookup("out").Data()
			took := time.Since(start)
			require.NotNil(t, problem)
			require.False(t, problem.IsIncomplete, problem.Message)
			t.Logf("%v: %s", took, problem.Error())
			require.Less(t, took, time.Minute) // on a loaded machine; alone, it is less than 100 ms
		})
	}
}
