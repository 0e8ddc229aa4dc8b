package admission

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Pod that is nested as deep as the API server allows is injected into. A deeper one is left
// unchanged, and its author gets the reason.
func TestDeepPod(t *testing.T) {
	t.Parallel()
	pods, _ := runPods(t, nil, typicalWatcher(t))
	server := serve(t, Config{Injector: pods})
	request := typicalPod(t)
	pod := string(request.Object.Raw)
	const deepest = 10_000 // of sigs.k8s.io/json
	for levels, warning := range map[int]string{deepest: "", deepest + 1: "nothing is injected: the Pod is nested deeper than 10000 levels"} {
		inside := levels - 2 // without the Pod and its spec
		text := strings.Replace(pod, `"spec":{`, `"spec":{"x":`+strings.Repeat("[", inside)+strings.Repeat("]", inside)+",", 1)
		require.Equal(t, warning == "", json.Valid([]byte(text)))
		request.Object.Raw = []byte("null")
		review := strings.Replace(string(reviewOf(t, request)), `"object":null`, `"object":`+text, 1)
		code, answer := server.post(t, InjectPath, []byte(review))
		require.Equal(t, http.StatusOK, code)
		require.True(t, answer.Allowed)
		require.Equal(t, warning == "", len(answer.Patch) > 0)
		require.Equal(t, warning, strings.Join(answer.Warnings, "\n"))
	}
}
