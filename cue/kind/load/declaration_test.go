package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// A shape of the children has to be open: the controller is a definition, which closes its structs.
func TestClosedShapeIsRejected(t *testing.T) {
	t.Parallel()
	const isClosed = ": is closed, so an object with any other field stalls the object of the kind: write observed: _, or ... at the end of each struct"
	for declared, want := range map[string]string{
		`_`:                      "",
		`pod?: _`:                "",
		`pod?: {...}`:            "",
		`{pod?: _, [string]: _}`: "",
		`pods: [...{status?: {phase?: string, ...}, ...}]`:  "",
		`pod?: {metadata?: labels?: [string]: string, ...}`: "observed.pod.metadata" + isClosed,
		`pod?: {status?: {phase?: string, ...}, ...}`:       "",
		`pod?: status?: phase?: string`:                     "observed.pod" + isClosed,
		`pod?: {status?: phase?: string, ...}`:              "observed.pod.status" + isClosed,
		`pods: [...{status?: phase?: string}]`:              "observed.pods[]" + isClosed,
		`pod?: #Shape`:                                      "observed.pod" + isClosed,
		`config?: {data?: a?: string}`:                      "observed.config" + isClosed,
	} {
		t.Run(declared, func(t *testing.T) {
			t.Parallel()
			set, err := All(false, corpus.Folder(t, `package k
import "fescue.dev/cue/contract"
#Shape: {status?: {...}}
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, status?: contract.#Status}
#GController: contract.#Controller & {
	object!: #G
	observed: `+declared+`
	names: plural: "gs"
	reads: config: {apiVersion: "v1", kind: "ConfigMap", name: object.metadata.name}
	children: pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "a", image: "b"}]}
	children: pods: {replicas: 2, template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "a", image: "b"}]}}
}
`))
			require.NoError(t, err)
			var texts []string
			for _, broken := range set.Broken() {
				texts = append(texts, broken.Reason)
			}
			require.Equal(t, want, strings.Join(texts, "\n"))
		})
	}
}
