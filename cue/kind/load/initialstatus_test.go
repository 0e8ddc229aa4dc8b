package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The CRD gives a new object a status that describes no generation, unless the kind's
// schema would not allow it.
func TestInitialStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"status?: contract.#Status":                                 `{"observedGeneration":-1}`,
		"status?: {contract.#Status, done?: bool}":                  `{"observedGeneration":-1}`,
		"status?: contract.#Status & {observedGeneration?: >=0}":    "",
		"status?: contract.#Status & {observedGeneration?: !=(-1)}": "",
	} {
		kinds, err := draftsOf(t, strings.ReplaceAll(`package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, STATUS}
#GController: contract.#Controller & {object!: #G, names: plural: "gs"}
`, "STATUS", status))
		require.NoError(t, err, status)
		initial := ""
		if json := kinds[0].Definition().Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Default; json != nil {
			initial = string(json.Raw)
		}
		require.Equal(t, want, initial, status)
	}
}
