package kind

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is marked for the evaluator must not compute anything whose size depends on a part of the
// object without a bound.
func TestUnboundedSizesAreRejected(t *testing.T) {
	t.Parallel()
	const n = "spec.n has no upper bound: write int & <=10000 in the schema"
	for text, want := range map[string]string{
		`len(list.Range(0, object.spec.n, 1))`:                                        "list.Range may have more than 10000 items: " + n,
		`len(list.Range(0, 2*object.spec.n+1, 1))`:                                    n,
		`len(list.Range(object.spec.small, 10, 1))`:                                   "",
		`len(list.Range(object.spec.low, 10, 1))`:                                     "spec.low has no upper bound: write int & >=0 & <=10000 in the schema",
		`len(list.Range(0, object.spec.small, 0.001))`:                                "list.Range may have more than 10000 items; that is the limit for what a kind computes",
		`len(list.Range(0, 10, object.spec.small))`:                                   "list.Range may have more than 10000 items: the step must always be above 0, or always below",
		`len(list.Range(0, object.spec.small, 1))`:                                    "",
		`len(list.Range(0, object.spec.mode, 1))`:                                     "",
		`len(list.Range(0, list.Min([object.spec.n, 100]), 1))`:                       "",
		`len(list.Range(0, len(object.spec.items), 1))`:                               "spec.items has no upper bound: write list.MaxItems(100) in the schema",
		`len(list.Range(0, len(object.spec.few), 1))`:                                 "",
		`len(list.Range(0, _n, 1))`:                                                   n,
		`len(list.Range(0, _small, 1))`:                                               "",
		`len(list.Range(0, #Helper.n, 1))`:                                            `#Helper.n has no upper bound: write it with literals`,
		`len(list.Repeat([1], object.spec.n))`:                                        n,
		`len(list.Repeat(object.spec.few, object.spec.small))`:                        "",
		`len(list.Repeat(object.spec.items, 2))`:                                      "list.Repeat may have more than 10000 items: spec.items",
		`strings.Repeat("x", object.spec.n)`:                                          n,
		`strings.Repeat("x", object.spec.small)`:                                      "",
		`strings.Repeat(object.spec.text, object.spec.small)`:                         "strings.Repeat may have more than 64 MiB: spec.text has no upper bound: write strings.MaxRunes(1000) in the schema",
		`"x" * object.spec.n`:                                                         n,
		`2 * object.spec.n`:                                                           "",
		`strings.Replace(object.spec.text, "", object.spec.text, -1)`:                 "strings.Replace may have",
		`strings.Replace(object.spec.text, ",", "; ", -1)`:                            "",
		`regexp.ReplaceAll("a*", object.spec.text, object.spec.text)`:                 "regexp.ReplaceAll may have",
		`strings.Join(object.spec.items, object.spec.text)`:                           "strings.Join may have",
		`strings.Join(object.spec.items, ",")`:                                        "",
		`len(strings.Split(object.spec.text, ","))`:                                   "",
		`len(strings.Split(object.spec.short, ","))`:                                  "",
		`len("\(bits.Lsh(1, object.spec.n))")`:                                        n,
		`math.Pow(10, object.spec.n)`:                                                 n,
		`strconv.FormatFloat(1.5, 102, object.spec.n, 64)`:                            n,
		`template.Execute(object.spec.text, {})`:                                      "text/template.Execute: the template must be a literal",
		`template.Execute("{{.a}}", {a: object.spec.text})`:                           "",
		`len([for a in object.spec.items for b in object.spec.items {b}])`:            "loops within each other may have more than 20000 rounds: spec.items",
		`len([for a in object.spec.items {for b in object.spec.items {x: b}}])`:       "loops within each other",
		`len([for a in object.spec.few for b in object.spec.few {b}])`:                "",
		`len([for a in _many for b in _many {a*b}])`:                                  "loops within each other may have more than 20000 rounds; that is the limit for what a kind computes",
		`len([for a in _many for b in object.spec.few {b}])`:                          "loops within each other may have more than 20000 rounds",
		`len([for a in _many {a}])`:                                                   "",
		`len([for a in object.spec.nested for b in a.items for c in b.items {c}])`:    "",
		`len([for i in list.Range(0, object.spec.small, 1) if i > 1 {i}])`:            "",
		`len([for i in list.Range(0, object.spec.n, 1) {i}])`:                         n,
		`len([for i in list.Range(0, 100, 1) {list.Range(0, i, 1)}])`:                 "",
		`len([for i in object.spec.numbers {list.Range(0, i, 1)}])`:                   "spec.numbers[] has no upper bound",
		`len(list.Range(0, #Deep, 1))`:                                                n,
		`len([for i in object.spec.items let k = object.spec.n {list.Range(0,k,1)}])`: n,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := kindsOf(t, strings.ReplaceAll(`package k

import (
	"list"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"fescue.dev/cue/contract"
)

#Pool: {
	apiVersion!: "sizes.example.com/v1"
	kind!:       "Pool"
	metadata!: {...}
	spec!: {
		n!:      int
		small!:  int & >=0 & <=100
		low!:    int & <=100
		mode!:   1 | 2 | 3
		text!:   string
		short!:  strings.MaxRunes(1000)
		items!: [...string]
		few!:   list.MaxItems(50) & [...string]
		many!: list.MaxItems(1000) & [...int]
		numbers!: [...int]
		nested!: [...{items!: [...{items!: [...string]}]}]
	}
	status?: {contract.#Status, x?: _}
}
#Helper: n: int
#PoolController: contract.#Controller & {
	object!: #Pool
	names: plural: "pools"
	_n:     object.spec.n
	_small: object.spec.small + 1
	_many: object.spec.many
	#Deep: _n
	status: x: TEXT @kube(eval)
}
_used: [list.MaxItems, math.Pi, bits.Len, regexp.Valid, strconv.Atoi, strings.MinRunes, template.Execute]
`, "TEXT", text))
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "kind.cue:41: kind Pool: ")
		})
	}
}

// A text that the behaviour splits is bounded in each object if it is not in the schema.
func TestSplitTextsAreBounded(t *testing.T) {
	t.Parallel()
	kinds, err := kindsOf(t, `package k

import (
	"strings"
	"fescue.dev/cue/contract"
)

#Words: {
	apiVersion!: "sizes.example.com/v1"
	kind!:       "Words"
	metadata!: {...}
	spec!: {text!: string, other?: string}
	status?: {contract.#Status, x?: _}
}
#WordsController: contract.#Controller & {
	object!: #Words
	names: plural: "words"
	status: x: len(strings.Fields(strings.TrimSpace(object.spec.text))) @kube(eval)
}
`)
	require.NoError(t, err)
	words := func(n int) map[string]any {
		return objectOf(kinds[0], map[string]any{"text": strings.Repeat("a ", n/2), "other": strings.Repeat("a", 1<<20)})
	}
	require.Empty(t, kinds[0].Validate(words(maxParts)))
	const want = "spec.text: Invalid value: must not be longer than 100000 bytes, because the behaviour splits it"
	require.EqualError(t, kinds[0].Validate(words(maxParts+2)).ToAggregate(), want)
	_, err = kinds[0].Decide(words(maxParts+2), nil)
	require.EqualError(t, err, "object.spec.text: must not be longer than 100000 bytes, because the behaviour splits it")
}
