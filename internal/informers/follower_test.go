package informers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/projection"
)

// store is an API server with one resource. It sends no event of a watch that starts in its future, as
// kube-apiserver does.
type store struct {
	mu       sync.Mutex
	version  int
	names    []string
	down     error
	checks   int // lists that are sent for their version
	watching *watch.FakeWatcher
	timeout  time.Duration // of the last watch
}

func (s *store) source() Source {
	return Source{
		List: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.down != nil {
				return nil, s.down
			}
			if options.Limit == versionOnly {
				s.checks++
			}
			if from := number(options.ResourceVersion); from > s.version {
				tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
				tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
				return nil, tooLarge
			}
			list := &projection.List{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
			for _, name := range s.names {
				list.Items = append(list.Items, s.object(name))
			}
			return list, nil
		},
		Watch: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.down != nil {
				return nil, s.down
			}
			if options.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "sendInitialEvents", nil)
			}
			s.watching, s.timeout = watch.NewFake(), time.Duration(*options.TimeoutSeconds)*time.Second
			if number(options.ResourceVersion) > s.version {
				return watch.NewFake(), nil
			}
			return s.watching, nil
		},
	}
}

func number(version string) (n int) {
	_, _ = fmt.Sscan(version, &n) // "" is 0
	return n
}

func (s *store) object(name string) *projection.Object {
	o, err := projection.To(parts.Everything()).Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, name, s.version))
	if err != nil {
		panic(err)
	}
	return o
}

func (s *store) add(name string) {
	s.change(func() {
		s.version++
		s.names = append(s.names, name)
	})
	s.watching.Add(s.object(name))
}

func (s *store) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// After etcd was restored from an older copy, a cache shows what that has, and follows it. A cache that only resumes
// its watch would be silent until the API server has counted as far as before. Idle, a cache does not compare versions.
func TestRestoreOfAnOlderCopy(t *testing.T) {
	t.Parallel()
	for name, failures := range map[string][]error{
		"restarted at once": nil,
		"down meanwhile":    {errors.New("connection refused"), apierrors.NewServiceUnavailable("starting")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &store{version: 10, names: []string{"kept"}}
				var reported []string
				informer := NewInformer(pods, s.source(), &projection.Object{}, nil, func(_ schema.GroupResource, err error) { reported = append(reported, err.Error()) })
				go informer.RunWithContext(t.Context())
				synctest.Wait()
				s.add("lost")
				synctest.Wait()
				require.ElementsMatch(t, []string{"kept", "lost"}, informer.GetStore().ListKeys())

				for range 3 { // watches that end in time
					time.Sleep(s.timeout)
					s.watching.Stop()
					time.Sleep(time.Second)
					synctest.Wait()
				}
				s.watching.Stop() // one that breaks
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, 1, s.checks)
				s.add("lost too")
				synctest.Wait()
				require.Len(t, informer.GetStore().ListKeys(), 3, "nothing was restored")

				s.change(func() { s.version, s.names = 10, []string{"kept"} })
				broken := s.watching
				for _, failure := range failures {
					s.change(func() { s.down = failure })
					broken.Stop()
					time.Sleep(10 * time.Second)
					synctest.Wait()
				}
				s.change(func() { s.down = nil })
				broken.Stop()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.Equal(t, []string{"kept"}, informer.GetStore().ListKeys())
				require.Equal(t, "10", informer.LastSyncResourceVersion())
				require.Contains(t, strings.Join(reported, "\n"), "the API server is at resource version 10, and 12 was seen before")
				s.add("new")
				synctest.Wait()
				require.ElementsMatch(t, []string{"kept", "new"}, informer.GetStore().ListKeys())
			})
		})
	}
}

// A bookmark shows it as well, on an API server that answers such a watch without its cache.
func TestBookmarkOfAnOlderCopy(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]watch.EventType{"": watch.Bookmark, "6": watch.Bookmark, "7": watch.Bookmark, "8": watch.Error, "10": watch.Error} {
		stream := `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`
		e := &events{next: newFrames(strings.NewReader(stream)).next, kept: projection.To(phases), shared: newFilter(Share{}), from: from}
		got, object, err := e.Decode()
		require.NoError(t, err)
		require.Equal(t, want, got, from)
		if want == watch.Error {
			require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(object)))
		}
	}
}
