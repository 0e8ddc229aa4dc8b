package apiserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// The model's garbage collector leaves what that of Kubernetes leaves, of objects that own each other and are deleted in all ways.
func TestModelCollectsAsKubernetes(t *testing.T) {
	t.Parallel()
	config := testcluster.Config(t)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	for seed := *firstSequence; seed < *firstSequence+*sequences; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			namespace := testcluster.Namespace(t)
			store := NewStore(time.Now, served...)
			server := NewServer(store)
			model := &side{host: "http://model", client: &http.Client{Transport: server}, namespace: namespace}
			kubernetes := &side{host: config.Host, client: client, namespace: namespace}
			var story []string
			for _, o := range ownershipFrom(rand.New(rand.NewPCG(seed, 2))) {
				story = append(story, fmt.Sprintf("%+v", o))
				o.do(t, kubernetes)
				o.do(t, model)
				for collecting := true; collecting; {
					server.Do("", func(s *Store) { collecting = s.Collect() })
				}
				expected := model.owned(t)
				got := ""
				require.True(t, testcluster.WaitUntil(func() bool {
					got = kubernetes.owned(t)
					return got == expected
				}), "%s\nKubernetes has\n%s\nand the model\n%s", strings.Join(story, "\n"), got, expected)
			}
		})
	}
}

// ownership is a ConfigMap with its owners, or its deletion.
type ownership struct {
	Name      string
	Owners    []string
	Blocks    bool
	Finalizer bool
	Policy    string // of the deletion; none if it is created
	Release   bool   // its finalizers are removed
}

// ownershipFrom returns ConfigMaps in layers, each owned by some of the layer above, and deletions of some of them. What blocks the
// deletion of nothing is owned by nothing that a finalizer keeps: if that is deleted in the foreground, Kubernetes sometimes deletes the
// former, and sometimes has ended the foreground deletion before.
func ownershipFrom(random *rand.Rand) (all []ownership) {
	var names, above []string
	isKept := make(map[string]bool)
	for layer := range 3 {
		var here []string
		for i := range 1 + random.IntN(3) {
			o := ownership{Name: fmt.Sprintf("c%d%d", layer, i), Blocks: random.IntN(2) == 0, Finalizer: random.IntN(5) == 0}
			for _, owner := range above {
				if random.IntN(2) == 0 {
					o.Owners = append(o.Owners, owner)
					o.Blocks = o.Blocks || isKept[owner]
				}
			}
			isKept[o.Name] = o.Finalizer
			all, here = append(all, o), append(here, o.Name)
		}
		names, above = append(names, here...), here
	}
	for range 3 {
		all = append(all, ownership{Name: names[random.IntN(len(names))], Policy: []string{"Background", "Foreground", "Orphan"}[random.IntN(3)]})
	}
	for _, name := range names {
		all = append(all, ownership{Name: name, Release: true})
	}
	return all
}

func (o ownership) do(t *testing.T, s *side) {
	t.Helper()
	collection := s.collection(0)
	path := collection + "/" + o.Name
	switch {
	case o.Policy != "":
		s.exchange(t, http.MethodDelete, path, "application/json", map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": o.Policy})
	case o.Release:
		live := s.live(t, path)
		if live == nil {
			return
		}
		metadata := live["metadata"].(map[string]any)
		finalizers, _ := metadata["finalizers"].([]any)
		metadata["finalizers"] = slices.DeleteFunc(finalizers, func(f any) bool { return f == "example.com/hold" })
		s.exchange(t, http.MethodPut, path, "application/json", live)
	default:
		metadata := map[string]any{"name": o.Name}
		var owners []any
		for _, name := range o.Owners {
			live := s.live(t, collection+"/"+name)
			owners = append(owners, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": s.uid(live, "right"), "blockOwnerDeletion": o.Blocks})
		}
		metadata["ownerReferences"] = owners
		if o.Finalizer {
			metadata["finalizers"] = []any{"example.com/hold"}
		}
		s.exchange(t, http.MethodPost, collection, "application/json", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
	}
}

// owned returns what there is, with its owners and finalizers.
func (s *side) owned(t *testing.T) string {
	t.Helper()
	_, answer := s.exchange(t, http.MethodGet, s.collection(0), "", nil)
	var all []string
	for _, item := range answer["items"].([]any) {
		metadata := item.(map[string]any)["metadata"].(map[string]any)
		if metadata["name"] == rootCertificate {
			continue
		}
		var owners []string
		references, _ := metadata["ownerReferences"].([]any)
		for _, reference := range references {
			owners = append(owners, reference.(map[string]any)["name"].(string))
		}
		finalizers, err := json.Marshal(metadata["finalizers"])
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%v owned by %v, finalizers %s, deleted: %t", metadata["name"], owners, finalizers, metadata["deletionTimestamp"] != nil))
	}
	return strings.Join(all, "\n")
}

// A namespace that ends takes nothing more, loses what is in it, and is gone then, in the model as in Kubernetes.
func TestModelEndsNamespaces(t *testing.T) {
	t.Parallel()
	config := testcluster.Config(t)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	namespace := testcluster.Namespace(t)
	store := NewStore(time.Now, served[:1]...)
	server := NewServer(store)
	model := &side{host: "http://model", client: &http.Client{Transport: server}, namespace: namespace}
	kubernetes := &side{host: config.Host, client: client, namespace: namespace}
	sides := []*side{model, kubernetes}

	answers := func(name string) {
		t.Helper()
		for _, query := range []string{"", "?dryRun=All"} {
			var all []string
			for _, s := range sides {
				object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
				code, answer := s.exchange(t, http.MethodPost, s.collection(0)+query, "application/json", object)
				details, _ := answer["details"].(map[string]any)
				all = append(all, fmt.Sprint(code, answer["reason"], details["name"], details["kind"], details["causes"]))
			}
			require.Equal(t, all[1], all[0])
		}
	}
	for _, s := range sides {
		(ownership{Name: "held", Finalizer: true}).do(t, s)
		(ownership{Name: "other"}).do(t, s)
	}
	server.Do("", func(s *Store) { s.EndNamespace(namespace) })
	kubernetes.exchange(t, http.MethodDelete, "/api/v1/namespaces/"+namespace, "application/json", nil)
	server.Do("", (*Store).Empty)
	require.True(t, testcluster.WaitUntil(func() bool { return kubernetes.owned(t) == model.owned(t) }))
	require.Contains(t, model.owned(t), "held")
	answers("late")
	for _, s := range sides {
		(ownership{Name: "held", Release: true}).do(t, s)
	}
	server.Do("", (*Store).Empty)
	require.True(t, testcluster.WaitUntil(func() bool {
		code, _ := kubernetes.exchange(t, http.MethodGet, "/api/v1/namespaces/"+namespace, "", nil)
		return code == http.StatusNotFound
	}))
	answers("later")
	server.Do("", func(s *Store) { require.True(t, s.BeginNamespace(namespace)) })
	require.Empty(t, model.owned(t))
}
