package inject

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Lists are merged by the keys of strategic merge; the exceptions are listed here with their
// reason.
func TestShapesAreThoseOfCoreV1(t *testing.T) {
	t.Parallel()
	exceptions := map[string]string{
		"containers.ports":          "server-side apply takes the protocol as well, as Pods may have one port for two",
		"topologySpreadConstraints": "server-side apply takes whenUnsatisfiable as well",
		"readinessGates":            "atomic in core/v1; two gates cannot have one type",
		"tolerations":               "atomic in core/v1; each item is a toleration of its own",
		"containers.envFrom":        "atomic in core/v1; each item is a source of its own",
		"resourceClaims":            "server-side apply and strategic merge have name",
		"ephemeralContainers":       "cannot be added",
	}
	met := make(map[string]bool)
	var compare func(t reflect.Type, s *shape, path string) []string
	compare = func(of reflect.Type, s *shape, path string) (wrong []string) {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			ours := s.field(name)
			key := f.Tag.Get("patchMergeKey")
			switch {
			case exceptions[at] != "":
				met[at] = true
			case key != "" && (len(ours.keys) != 1 || ours.keys[0] != key), key == "" && ours.isList():
				wrong = append(wrong, at)
			}
			if ours.containers {
				wrong = append(wrong, compare(f.Type.Elem(), ours.item, "containers")...)
			}
			met[at] = true
		}
		for name := range s.fields {
			if at := strings.TrimPrefix(path+"."+name, "."); !met[at] {
				wrong = append(wrong, at+" is not a field")
			}
		}
		return wrong
	}
	require.Empty(t, compare(reflect.TypeFor[corev1.PodSpec](), podSpec, ""))
	for at := range exceptions {
		require.True(t, met[at], at)
	}
	require.True(t, slices.Equal(containers.keys, podSpec.field("initContainers").keys))
}
