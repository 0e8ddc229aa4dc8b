package informers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/projection"
)

// served returns a client of a server that answers as told.
func served(t *testing.T, answer http.HandlerFunc) Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL, QPS: -1})
	require.NoError(t, err)
	return c
}

var phases = parts.Of([]string{"status", "phase"})

// A cache lists, watches, follows bookmarks and starts again, and keeps only what is asked for.
func TestCacheOfStream(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 100)
	frames := make(chan string)
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path + "?" + r.URL.Query().Get("labelSelector") + "&" + r.URL.Query().Get("fieldSelector")
		if r.URL.Query().Get("sendInitialEvents") != "true" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for {
			select {
			case frame, ok := <-frames:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, frame) // the client may be gone
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	i := New(t.Context(), c, []string{"team"})
	watched, err := i.Watch(Selection{Resource: pods, Labels: "a", Where: "b=c", Keep: phases})
	require.NoError(t, err)
	defer watched.Release()
	seen := make(chan string, 100)
	tell := func(verb string, object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		seen <- fmt.Sprint(verb, " ", object.(*unstructured.Unstructured).Object)
	}
	r, err := watched.Handle(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("added", object) },
		UpdateFunc: func(_, object any) { tell("changed", object) },
		DeleteFunc: func(object any) { tell("deleted", object) },
	})
	require.NoError(t, err)

	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"team","uid":"u","resourceVersion":"%d","managedFields":[{"manager":"m"}]},"spec":{"containers":[]},"status":{"phase":"%s","podIP":"::1"}}`
	event := func(verb string, version int, phase string) string {
		return fmt.Sprintf(`{"type":"%s","object":`+pod+"}\n", verb, version, phase)
	}
	frames <- event("ADDED", 5, "Pending") + `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"6",`
	frames <- `"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	require.Equal(t, "/api/v1/namespaces/team/pods?a&b=c", <-requests)
	want := "%s map[apiVersion:v1 kind:Pod metadata:map[name:p namespace:team resourceVersion:%d uid:u] status:map[phase:%s]]"
	require.Equal(t, fmt.Sprintf(want, "added", 5, "Pending"), <-seen)
	require.NoError(t, r.WaitForSync(t.Context()))
	frames <- event("MODIFIED", 7, "Running") + `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"8"}}}`
	require.Equal(t, fmt.Sprintf(want, "changed", 7, "Running"), <-seen)
	require.Eventually(t, func() bool { return watched.ResourceVersion("team") == "8" }, time.Minute, time.Millisecond)
	frames <- event("DELETED", 9, "Running")
	require.Equal(t, fmt.Sprintf(want, "deleted", 9, "Running"), <-seen)
	frames <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`
	require.Equal(t, "/api/v1/namespaces/team/pods?a&b=c", <-requests, "it starts again")
}

func TestLists(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer string
		want   []map[string]any
		err    string
	}{
		"built-in": {
			answer: `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"metadata":{"name":"a"},"status":{"phase":"P","x":1}},{"metadata":{"name":"b"}}]}`,
			want: []map[string]any{
				{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "P"}},
				{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "b"}},
			},
		},
		"custom": {
			answer: `{"apiVersion":"v1","items":[{"apiVersion":"x/v1","kind":"X","metadata":{"name":"a"},"more":[1]}],"kind":"XList","metadata":{"resourceVersion":"7","continue":"c"},"other":1}`,
			want:   []map[string]any{{"apiVersion": "x/v1", "kind": "X", "metadata": map[string]any{"name": "a"}}},
		},
		"empty":    {answer: `{"metadata":{"resourceVersion":"7","continue":"c"},"items":null}`},
		"cut off":  {answer: `{"metadata":{},"items":[{"metadata":{}},`, err: "read a list: EOF"},
		"a list":   {answer: `[]`, err: "read a list: it begins with [ and not as an object"},
		"an item":  {answer: `{"items":[1]}`, err: `read a list: "1" is not an object`},
		"a number": {answer: `{"items":[{"status":{"phase":1e999}}]}`, err: `read a list: number 1e999: strconv.ParseFloat: parsing "1e999": value out of range`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.answer) })
			found, err := c.source(Selection{Resource: pods}, "", projection.To(phases)).List(t.Context(), metav1.ListOptions{})
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			list := found.(*projection.List)
			require.Equal(t, metav1.ListMeta{ResourceVersion: "7", Continue: "c"}, list.ListMeta)
			var got []map[string]any
			for _, item := range list.Items {
				got = append(got, item.Unstructured().Object)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// The API server's errors are what callers expect of any client.
func TestErrorsOfRequests(t *testing.T) {
	t.Parallel()
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/apis/example.com/v1/things", r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
	})
	source := c.source(Selection{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}}, "", projection.To(phases))
	_, err := source.List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), err)
	_, err = source.Watch(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), err)
}

func TestEventsOfWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stream string
		want   watch.EventType
		err    string
	}{
		"nothing":      {"", "", "EOF"},
		"added":        {`{"object":{},"type":"ADDED"}`, watch.Added, ""},
		"error":        {`{"type":"ERROR","object":{"code":410}}`, watch.Error, ""},
		"cut off":      {`{"type":"ADDED"`, "", "unexpected EOF"},
		"not JSON":     {`{"type":x}`, "", "event: is not valid JSON"},
		"unknown type": {`{"type":"x","object":{}}`, "", `event of the unknown type "x"`},
		"no object":    {`{"type":"ADDED"}`, "", "event has no object"},
		"null":         {`{"type":"ADDED","object":null}`, "", `"null" is not an object`},
		"text":         {`hello`, "", "a watch has something else than objects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &events{next: newFrames(strings.NewReader(tc.stream)).next, kept: projection.To(phases), shared: newFilter(Share{})}
			got, object, err := e.Decode()
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			if got == watch.Error {
				require.Equal(t, int32(http.StatusGone), object.(*metav1.Status).Code)
			}
		})
	}
}

// However a stream arrives, its frames are the same.
func TestFrames(t *testing.T) {
	t.Parallel()
	large := `{"a":"` + strings.Repeat("x", 3*readSize) + `"}`
	want := []string{`{}`, `{"a":"}\"{\\"}`, `{"a":[{"b":[]}]}`, large, `{"c":1}`}
	stream := " " + want[0] + "\n" + want[1] + want[2] + "\r\n\t" + want[3] + want[4] + "\n"
	for name, reader := range map[string]io.Reader{
		"whole": strings.NewReader(stream), "bytes": iotest.OneByteReader(strings.NewReader(stream)),
		"halves": iotest.HalfReader(strings.NewReader(stream)), "with error": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		f := newFrames(reader)
		for i, text := range want {
			frame, err := f.next()
			require.NoError(t, err, name)
			require.Equal(t, text, string(frame), "%s %d", name, i)
		}
		_, err := f.next()
		require.ErrorIs(t, err, io.EOF, name)
	}
	f := newFrames(strings.NewReader(large))
	_, err := f.next()
	require.NoError(t, err)
	_, err = f.next()
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, f.buffer, readSize, "the memory of a large object is given back")

	_, err = newFrames(io.MultiReader(strings.NewReader(`{"a":"`), neverEnding{})).next()
	require.ErrorIs(t, err, errLargeFrame)
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
