package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What ready reads does not keep a child from being created, so vet gives no advice about it.
func TestReadyWaitsForNothing(t *testing.T) {
	t.Parallel()
	const template = `template: {apiVersion: "v1", kind: "ConfigMap", data: a: "b"}`
	for children, want := range map[string]string{
		`a: {` + template + `, ready: observed.a.data.a == "b"}`:                                                                               "",
		`a: {` + template + `, ready: observed.b.data.a == "b"}, b: {` + template + `, when: observed.a.data.a == "b"}`:                        "",
		`a: {` + template + `, when: observed.a.data.a == "b"}`:                                                                                "children.a waits for itself, so it is never created: observed.a does not exist before",
		`a: {` + template + `, when: observed.b.data.a == "b"}, b: {` + template + `, when: observed.a.data.a == "b"}`:                         "children.a, children.b wait for each other, so none of them is ever created",
		`a: {` + template + `, replicas: len(observed.a), ready: true}`:                                                                        "children.a waits for itself, so it is never created: observed.a does not exist before",
		`a: {` + template + `, ready: observed.a.data.a == "b", template: metadata: annotations: b: observed.b.data.a}, b: {` + template + `}`: "",
	} {
		t.Run(children, func(t *testing.T) {
			t.Parallel()
			kinds, err := draftsOf(t, `package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, status?: contract.#Status}
#GController: contract.#Controller & {object!: #G, observed: _, names: plural: "gs", children: {`+children+`}}
`)
			require.NoError(t, err)
			requireNoMistakes(t, kinds)
			var texts []string
			for _, a := range kinds[0].Advice {
				texts = append(texts, a.Text)
			}
			require.Equal(t, want, strings.Join(texts, "\n"))
		})
	}
}
