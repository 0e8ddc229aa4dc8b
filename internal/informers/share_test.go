package informers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/sharding"

	"github.com/fescue-dev/fescue/internal/projection"
)

// The API server selects the same objects as ShardOf, and divides them evenly.
func TestShardsAreThoseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 3, 7, 16} {
		const objects = 20_000
		has := make([]int, count)
		for n := range objects {
			uid := types.UID(uuid.NewString())
			has[ShardOf(uid, count)]++
			if n >= 200 {
				continue
			}
			for shard := range count {
				selector, err := sharding.Parse(Share{Shard: shard, Count: count}.selector())
				require.NoError(t, err)
				matches, err := selector.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid}})
				require.NoError(t, err)
				require.Equal(t, ShardOf(uid, count) == shard, matches, "%s in %d of %d", uid, shard, count)
			}
		}
		for _, n := range has {
			require.InEpsilon(t, objects/count, n, 0.15)
		}
	}
}

func TestShardSelector(t *testing.T) {
	t.Parallel()
	require.Equal(t, "shardRange(object.metadata.uid, '0x0000000000000000', '0x5555555555555556')", Share{Shard: 0, Count: 3}.selector())
	require.Equal(t, "shardRange(object.metadata.uid, '0xaaaaaaaaaaaaaaab', '0x10000000000000000')", Share{Shard: 2, Count: 3}.selector())
	require.Empty(t, Share{}.selector())
	require.Empty(t, Share{Count: 3, OwnerLabel: "owner"}.selector(), "the API server cannot select by owner")
}

// ownedBy is a child whose label and whose controller reference name owners; "" is none.
func ownedBy(name, label, controller string) string {
	metadata := fmt.Sprintf(`"name":%q,"uid":"uid of %s"`, name, name)
	if label != "" {
		metadata += fmt.Sprintf(`,"labels":{"owner":%q}`, label)
	}
	if controller != "" {
		metadata += fmt.Sprintf(`,"ownerReferences":[{"uid":"x"},{"uid":%q,"controller":true}]`, controller)
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{` + metadata + `}}`
}

// owners returns UIDs of the first and the second of two shards.
func owners() (ours, others string) {
	for i := 0; ours == "" || others == ""; i++ {
		if uid := fmt.Sprintf("u%d", i); ShardOf(types.UID(uid), 2) == 0 {
			ours = uid
		} else {
			others = uid
		}
	}
	return ours, others
}

func TestChildrenOfAShare(t *testing.T) {
	t.Parallel()
	ours, others := owners()
	items := []string{
		ownedBy("ours", ours, ours), ownedBy("others", others, others), ownedBy("adopted", ours, others), ownedBy("relabelled", others, ours),
		ownedBy("unlabelled", "", others), ownedBy("orphan", others, ""),
	}
	shared := newFilter(Share{Shard: 0, Count: 2, OwnerLabel: "owner"})
	list, err := readList(strings.NewReader(`{"items":[`+strings.Join(items, ",")+`]}`), projection.To(nil), shared)
	require.NoError(t, err)
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetObjectMeta().GetName())
	}
	require.Equal(t, []string{"ours", "adopted", "relabelled", "orphan"}, names)
}

// Someone who sees only a share sees an object that leaves it change and then as deleted, once, and nothing of others.
func TestEventsOfAShare(t *testing.T) {
	t.Parallel()
	ours, others := owners()
	stream := ""
	for _, event := range [][2]string{
		{"ADDED", ownedBy("a", ours, ours)},
		{"ADDED", ownedBy("b", others, others)},
		{"MODIFIED", ownedBy("b", others, others)},
		{"MODIFIED", ownedBy("a", others, others)},
		{"MODIFIED", ownedBy("a", others, others)},
		{"DELETED", ownedBy("a", others, others)},
		{"MODIFIED", ownedBy("b", ours, others)},
		{"BOOKMARK", `{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"9"}}`},
		{"DELETED", ownedBy("b", others, others)},
		{"DELETED", ownedBy("c", ours, ours)},
	} {
		stream += fmt.Sprintf(`{"type":%q,"object":%s}`, event[0], event[1])
	}
	e := &events{next: newFrames(strings.NewReader(stream)).next, kept: projection.To(nil), shared: newFilter(Share{Shard: 0, Count: 2, OwnerLabel: "owner"})}
	var seen []string
	for {
		verb, object, err := e.Decode()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		seen = append(seen, strings.TrimSpace(string(verb)+" "+object.(*projection.Object).GetObjectMeta().GetName()))
	}
	require.Equal(t, []string{"ADDED a", "MODIFIED a", "DELETED a", "MODIFIED b", "BOOKMARK", "DELETED b", "DELETED c"}, seen)
	require.Empty(t, e.shared.passed)
}

// An object of any page of a list is known, also when it leaves the share later, and after a list that was sent for
// its version.
func TestShareOfAListInPages(t *testing.T) {
	t.Parallel()
	ours, others := owners()
	pages := map[string]string{
		"":  `{"metadata":{"continue":"c"},"items":[` + ownedBy("a", ours, ours) + `]}`,
		"c": `{"items":[` + ownedBy("b", ours, ours) + `]}`,
	}
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, pages[r.URL.Query().Get("continue")])
			return
		}
		for _, name := range []string{"a", "b"} {
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, ownedBy(name, others, others))
		}
	})
	source := c.source(Selection{Resource: pods, Share: Share{Shard: 0, Count: 2, OwnerLabel: "owner"}}, "", projection.To(nil))
	for _, options := range []metav1.ListOptions{{}, {Continue: "c"}, {Limit: versionOnly}} {
		_, err := source.List(t.Context(), options)
		require.NoError(t, err)
	}
	watched, err := source.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watched.Stop()
	for _, name := range []string{"a", "b"} {
		for _, verb := range []watch.EventType{watch.Modified, watch.Deleted} {
			event := <-watched.ResultChan()
			require.Equal(t, verb, event.Type)
			require.Equal(t, name, event.Object.(*projection.Object).GetObjectMeta().GetName())
		}
	}
}
