package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// errorLines returns errors as people see them.
func errorLines(errs []*Error) []string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return lines
}

func TestValuesAreThoseOfTheAPIMachinery(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"1":                    int64(1),
		"1.0":                  int64(1),
		"1.5":                  1.5,
		"0777":                 int64(511),
		"1_000":                int64(1000),
		"0b11":                 int64(3),
		"0x10":                 int64(16),
		"9007199254740993":     int64(9007199254740993),
		"190:20:30":            "190:20:30", // base 60 is the part of YAML 1.1 that is not read
		"y":                    true,
		"NO":                   false,
		"off":                  false,
		`"NO"`:                 "NO",
		"~":                    nil,
		"2020-01-01":           "2020-01-01",
		"!!str 1":              "1",
		"!!binary aGVsbG8=":    "hello",
		"[1, {on: y}]":         []any{int64(1), map[string]any{"true": true}},
		"{1: a, 1.5: b, n: c}": map[string]any{"1": "a", "1.5": "b", "false": "c"},
	} {
		objects, errs := Read("f", []byte("v: "+text+"\n"))
		require.Empty(t, errs, text)
		require.Equal(t, map[string]any{"v": want}, objects[0].Content, text)
	}
	objects, errs := Read("f", []byte(`{"v": 1.0, "w": 1, "x": "\ud83d\ude00"}`))
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"v": 1.0, "w": int64(1), "x": "😀"}, objects[0].Content, "JSON has its own numbers, and characters that YAML rejects")
	require.Equal(t, Position{"f", 1, 1}, objects[0].Locate("x").Value.Position)
}

func TestObjectsOfAFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string // NAME@POSITION
	}{
		"empty":          {"", nil},
		"comments alone": {"# a\n---\n# b\n--- # c\n\n---\nnull\n---\n", nil},
		"documents":      {"id: a\n---\nid: b\n---   # x\n\n id: c", []string{"a@f:1:1", "b@f:3:1", "c@f:6:2"}},
		"windows":        {"\ufeffid: a\r\n---\r\nid: b\r\n", []string{"a@f:1:1", "b@f:3:1"}},
		"document end":   {"id: a\n...\n---\nid: b\n", []string{"a@f:1:1", "b@f:4:1"}},
		"JSON":           {"{\n\t\"id\": \"a\"\n}\n", []string{"a@f:1:1"}},
		"JSON stream":    {"{\"id\":\"a\"}\n{\"id\":\"b\"} {\"id\":\"c\"}", []string{"a@f:1:1", "b@f:2:1", "c@f:2:12"}},
		"List": {
			"apiVersion: v1\nkind: List\nitems:\n- id: a\n- {id: b}\n- apiVersion: x/v1\n  kind: AtList\n  items:\n  - id: c\n",
			[]string{"a@f:4:3", "b@f:5:3", "c@f:9:5"},
		},
		"List without items": {"apiVersion: v1\nkind: List\n", []string{"@f:1:1"}}, // which vet rejects
		"kind named List":    {"apiVersion: x/v1\nkind: AllowList\nid: a\n", []string{"a@f:1:1"}},
		"items in aliases":   {"apiVersion: v1\nkind: List\nx: &x {id: a}\nw: &y [*x, {id: b}]\nitems: *y\n", []string{"a@f:4:8", "b@f:4:12"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, errs := Read("f", []byte(c.text))
			require.Empty(t, errorLines(errs))
			var got []string
			for _, o := range objects {
				n, _ := o.Content["id"].(string)
				got = append(got, n+"@"+o.Position.String())
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestItemsHaveTheTypeOfTheirList(t *testing.T) {
	t.Parallel()
	objects, errs := Read("f", []byte("apiVersion: x/v1\nkind: AtList\nitems:\n- id: a\n- {apiVersion: y/v1, kind: B}\n"))
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"apiVersion": "x/v1", "kind": "At", "id": "a"}, objects[0].Content)
	require.Equal(t, map[string]any{"apiVersion": "y/v1", "kind": "B"}, objects[1].Content)
}

func TestErrorsOfAFile(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 " + strings.Repeat("x", 100) + "\n"
	for i := range 9 {
		alias := "*a" + string(rune('0'+i)) + ","
		bomb += "a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat(alias, 10) + "]\n"
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"mapping in a line":     {"a: 1\n---\nb: c: d\n", []string{"f:3: mapping values are not allowed in this context"}},
		"first line":            {"a: b: c", []string{"f:1: mapping values are not allowed in this context"}},
		"indentation":           {"x: 1\na:\n  - b\n c: d\n", []string{"f:4: did not find expected key"}},
		"list in mapping":       {"a: 1\nb: 2\n- c\n", []string{"f:3: did not find expected key"}},
		"not closed":            {"a: [1,\nb: c\n", []string{"f:3: did not find expected ',' or ']'"}},
		"no colon":              {"k: v\nfoo\nbar: 1\n", []string{"f:3: could not find expected ':'"}},
		"tab":                   {"x: 1\n\ta: b\n", []string{"f:2: found a tab character that violates indentation"}},
		"unknown anchor":        {"---\na: *x\n", []string{"f:2: unknown anchor 'x' referenced"}},
		"JSON":                  {"{\"a\": 1,\n \"b\" 2}", []string{"f:2: did not find expected ',' or '}'"}},
		"no object":             {"- a\n---\n x\n---\n5\n---\nyes", []string{"f:1:1: must be an object with apiVersion and kind, is a list", "f:3:2: must be an object with apiVersion and kind, is a string", "f:5:1: must be an object with apiVersion and kind, is a number", "f:7:1: must be an object with apiVersion and kind, is a boolean"}},
		"no object in List":     {"apiVersion: v1\nkind: List\nitems: [a,\n null]\n", []string{"f:3:9: must be an object with apiVersion and kind, is a string", "f:4:2: must be an object with apiVersion and kind, is null"}},
		"duplicates":            {"a: 1\nb: {c: 1, \"c\": 2, c: 3}\na: 2\n", []string{`f:2:11: duplicate key "c": the first is in line 2`, `f:2:19: duplicate key "c": the first is in line 2`, `f:3:1: duplicate key "a": the first is in line 1`}},
		"duplicates in JSON":    {"{\"a\": 1,\n\"a\": 2}", []string{`f:2:1: duplicate key "a": the first is in line 1`}},
		"on is true":            {"true: 1\non: 2\n", []string{`f:2:1: duplicate key "true": the first is in line 1; YAML 1.1, which Kubernetes reads, takes the plain on for the boolean true: quote it`}},
		"keys that are none":    {"a: {~: 1, [x]: 2}\n", []string{"f:1:5: this cannot be the name of a field: quote it", "f:1:11: this cannot be the name of a field: quote it"}},
		"infinite":              {"a: .inf\n", []string{"f:1:1: json: unsupported value: +Inf"}},
		"after the separator":   {"a: 1\n--- {b: 1}\nc: 2\n---\nd: e: f\n", []string{"f:2:4: only a comment may follow --- on its line: kubectl rejects anything else", "f:5: mapping values are not allowed in this context"}},
		"after the end":         {"a: 1\n...\nb: 2\n", []string{"f:3: did not find expected <document start>"}},
		"lines of another kind": {"a: 1\r---\rb: 2\r", []string{"f:3:1: kubectl ignores text after the end of a document: begin the next with ---"}},
		"within itself":         {"a: &a\n  b: *a\n", []string{`f:1:1: the value of anchor "a" contains itself`}},
		"alias bomb":            {bomb, []string{"f:1:1: is larger than 8 MiB with its aliases expanded"}},
		"long string":           {"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 8) + "]", []string{"f:1:1: is larger than 8 MiB with its aliases expanded"}},
		"too large":             {strings.Repeat("\n", MaxSize+1), []string{"f: is larger than 8 MiB: split it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs := Read("f", []byte(c.text))
			require.Equal(t, c.want, errorLines(errs))
		})
	}
}

func TestADocumentThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	objects, errs := Read("f", []byte("a: b: c\n---\nx: 1\n--- y\nz: 1\n---\nx: 2\n"))
	require.Len(t, errs, 2)
	require.Len(t, objects, 2)
	require.Equal(t, "f:7:4", objects[1].Locate("x").Value.String())
}
