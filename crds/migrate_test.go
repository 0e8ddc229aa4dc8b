package crds

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// compactingServer is an API server that has dropped the version of a list when its last page is asked
// for. It answers how to go on with a newer version, unless restart is set.
type compactingServer struct {
	t       *testing.T
	kind    *kind.Kind
	crd     *unstructured.Unstructured
	restart bool
	written []string
}

func newCompactingServer(t *testing.T, restart bool) (*compactingServer, dynamic.Interface) {
	t.Helper()
	s := &compactingServer{t: t, kind: kindtest.Named(t, kindtest.Shipped(t), "At"), restart: restart}
	var err error
	s.crd, err = Object(s.kind, true)
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedStringSlice(s.crd.Object, []string{"v0", s.kind.GroupVersionKind.Version}, "status", "storedVersions"))
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return s, client
}

func (s *compactingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, code := any(s.crd), http.StatusOK
	switch {
	case r.Method == http.MethodPut:
		written := &unstructured.Unstructured{}
		if err := json.NewDecoder(r.Body).Decode(written); err != nil {
			s.t.Error(err)
		}
		s.written = append(s.written, written.GetName())
		if written.GetKind() == s.crd.GetKind() {
			s.crd = written
		}
		written.SetResourceVersion("2")
		answer = written
	case r.URL.Path == "/apis/"+s.kind.GroupVersionKind.GroupVersion().String()+"/"+s.kind.Names.Plural:
		answer, code = s.page(r.URL.Query().Get("continue"))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// page returns a page of a list.
func (s *compactingServer) page(at string) (answer any, code int) {
	page, ok := map[string]struct{ object, next string }{
		"": {"first", "old 2"}, "old 2": {"second", "old 3"}, "new 3": {"third", ""},
	}[at]
	if !ok {
		expired := apierrors.NewResourceExpired("The provided continue parameter is too old").ErrStatus
		expired.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		if !s.restart {
			expired.Continue = "new 3"
		}
		return expired, http.StatusGone
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(s.kind.GroupVersionKind)
	object.SetNamespace("default")
	object.SetName(page.object)
	object.SetResourceVersion("1")
	return map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": s.kind.Names.ListKind,
		"metadata": metav1.ListMeta{Continue: page.next}, "items": []any{object.Object},
	}, http.StatusOK
}

// TestMigrationOutlivesItsList requires that a migration which takes longer than the API server keeps the
// version of a list, 5 minutes by default, goes on where it was. Otherwise a kind with many objects could
// never be migrated: a second run takes as long.
func TestMigrationOutlivesItsList(t *testing.T) {
	t.Parallel()
	s, client := newCompactingServer(t, false)
	migrated, err := Migration{Client: client}.Run(t.Context(), s.kind)
	require.NoError(t, err)
	require.Equal(t, Migrated{Version: s.kind.GroupVersionKind.Version, Former: []string{"v0"}, Objects: 3, Rewritten: 3}, migrated)
	require.Equal(t, []string{"first", "second", "third", s.kind.Name()}, s.written)

	s, client = newCompactingServer(t, true)
	_, err = Migration{Client: client}.Run(t.Context(), s.kind)
	require.ErrorContains(t, err, "too old", "an API server that names no way to go on")
	require.Equal(t, []string{"first", "second"}, s.written, "the former version stays: objects may be left")
}
