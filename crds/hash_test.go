package crds

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// A kind stands back for another version of it, and not for an annotation that no version has written.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	k := &kind.Kind{Hash: strings.Repeat("0a", 8)}
	for installed, isOther := range map[string]bool{
		k.Hash: false, "": false, "edited": false, "0a": false, strings.Repeat("xx", 8): false, strings.Repeat("0b", 8): true,
	} {
		crd := &unstructured.Unstructured{}
		crd.SetAnnotations(map[string]string{HashAnnotation: installed})
		want := ""
		if isOther {
			want = installed
		}
		require.Equal(t, want, OtherVersion(k, crd), installed)
	}
}
