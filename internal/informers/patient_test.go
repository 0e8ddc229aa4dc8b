package informers

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// After the API server was down for ten minutes, or a right was missing that long, a cache has the
// events within seconds; a reflector's own backoff took up to a minute. Each failure is counted.
func TestCachesRecoverWithinSeconds(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"down":  errors.New("connection refused"),
		"right": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := client(pod("a", "one"))
				var isDown atomic.Bool
				var failures atomic.Int32
				var connection atomic.Pointer[watch.FakeWatcher]
				fail := func(clienttesting.Action) (bool, runtime.Object, error) { return isDown.Load(), nil, failure }
				api.PrependReactor("list", "pods", fail)
				api.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
					if isDown.Load() {
						return true, nil, failure
					}
					connection.Store(watch.NewFake())
					return true, connection.Load(), nil
				})
				i := New(t.Context(), Decoded(api), nil)
				i.Failed = func(resource schema.GroupResource, err error) {
					require.Equal(t, "pods", resource.String())
					require.ErrorIs(t, err, failure)
					failures.Add(1)
				}
				w, err := i.Watch(Selection{Resource: pods})
				require.NoError(t, err)
				defer w.Release()
				synctest.Wait()
				require.Len(t, w.InNamespace("a"), 1)

				isDown.Store(true)
				connection.Load().Stop()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.Greater(t, failures.Load(), int32(10*60/(1.5*retryMax.Seconds())))
				require.Less(t, failures.Load(), int32(10*60/retryMax.Seconds()+20))
				isDown.Store(false)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				connection.Load().Add(pod("a", "two"))
				synctest.Wait()
				require.Len(t, w.InNamespace("a"), 2)
			})
		})
	}
}

// An error that a reflector answers with another request is not retried here.
func TestOtherErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bool{http.StatusGone: false, http.StatusUnprocessableEntity: false, http.StatusNotFound: true, http.StatusServiceUnavailable: true} {
		require.Equal(t, want, mayPass(&apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code)}}), code)
	}
	tries := 0
	gone := apierrors.NewResourceExpired("too old")
	_, err := retry(t.Context(), func(error) {}, func() (int, error) { tries++; return 0, gone })
	require.ErrorIs(t, err, gone)
	require.Equal(t, 1, tries)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = retry(ctx, func(error) {}, func() (int, error) { return 0, errors.New("no answer") })
	require.EqualError(t, err, "no answer")
}
