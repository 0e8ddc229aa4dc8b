package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// A process that starts reconciles each object once, writes nothing, and reviews its rights with one
// request.
func TestRestart(t *testing.T) {
	const each = 10
	c := newCluster(t)
	o := c.start()
	for i := range each {
		c.createWatcher(fmt.Sprint("w-", i), map[string]any{"a": "b"})
		c.createCustomcluster(fmt.Sprint("c-", i), 2, "m")
		c.createAt(fmt.Sprint("a-", i), longAgo, "echo")
	}
	for i := range each {
		c.awaitReady(watchers, fmt.Sprint("w-", i))
		c.awaitReady(customclusters, fmt.Sprint("c-", i))
		c.awaitPhase(fmt.Sprint("a-", i), "DONE")
	}
	require.Zero(t, o.stop())
	c.proxy.requests.reset()

	o = c.start()
	reconciles := func() string {
		families, counts := o.scrape(), make(map[string]float64)
		for _, metric := range families["controller_runtime_reconcile_total"].GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" {
					counts[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
		return fmt.Sprint(counts)
	}
	want := fmt.Sprintf("map[ats.cnat.fescue.dev:%d customclusters.samplecontroller.fescue.dev:%[1]d watchers.watch.fescue.dev:%[1]d]", each)
	testcluster.WaitUntil(func() bool { return reconciles() == want })
	require.Equal(t, want, reconciles())
	testcluster.HoldsFor(3*time.Second, func() bool { return reconciles() == want }) // longer than events of members are collected
	require.Equal(t, want, reconciles())
	var reviews []string
	for _, request := range c.proxy.requests.all() {
		if strings.Contains(request, "selfsubject") && !strings.Contains(request, "selfsubjectreviews") {
			reviews = append(reviews, request)
		} else if !strings.Contains(request, "leases") {
			require.True(t, strings.HasPrefix(request, http.MethodGet+" "), request)
		}
	}
	slices.Sort(reviews)
	require.Len(t, reviews, 1, "%v", reviews)
}

// An operator starts although the first request of each kind to each path fails, as those of an API server that is
// being restarted do.
func TestStartWhileRequestsFail(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			var failed sync.Map
			failing := func(r *http.Request) int {
				if _, again := failed.LoadOrStore(r.Method+" "+r.URL.Path, true); again {
					return 0
				}
				return code
			}
			c.proxy.failing.Store(&failing)
			flags, _ := c.webhookURLFlags()
			o := c.start(flags...)
			c.createAtWhenServed("a") // the first question for the author's rights fails too, and rejects the object
			c.awaitPhase("a", "DONE")
			require.Zero(t, o.stop())
		})
	}
}

// A struct that a template has, and that has nothing in it any more, is emptied with the rest: a process that starts
// would give it to the child otherwise, which restarts its Pods. The quantity is stored in another way, so that process
// applies the template once.
func TestRestartAfterAStructBecameEmpty(t *testing.T) {
	t.Parallel()
	const fields = `affinity?: {...}`
	const behaviour = `children: web: template: {
		apiVersion: "apps/v1", kind: "Deployment"
		spec: {
			selector: matchLabels: app: "web"
			template: {
				metadata: labels: app: "web"
				spec: {
					if object.spec.affinity != _|_ {affinity: object.spec.affinity}
					containers: [{name: "c", image: "a", resources: requests: cpu: "1000m"}]
				}
			}
		}
	}
	children: web: ready: true`
	c := newCluster(t)
	c.deleteCRDs("changings." + c.group())
	changings := schema.GroupVersionResource{Group: c.group(), Version: "v1", Resource: "changings"}
	dir, _ := writeKind(t, strings.NewReplacer("GROUP", c.group(), "SPEC", fields, "BEHAVIOUR", behaviour).Replace(changingKind))
	o := c.start("--kinds", dir)
	preferred := map[string]any{"nodeAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{
		map[string]any{"weight": int64(1), "preference": map[string]any{"matchExpressions": []any{
			map[string]any{"key": "a", "operator": "Exists"}}}},
	}}}
	c.create(changings, "Changing", "o", map[string]any{"spec": map[string]any{"affinity": preferred}})
	affinityOf := func(o *unstructured.Unstructured) (map[string]any, bool) {
		affinity, isSet, err := unstructured.NestedMap(o.Object, "spec", "template", "spec", "affinity")
		require.NoError(t, err)
		return affinity, isSet
	}
	c.await(deployments, "o-web", "with its affinity", func(o *unstructured.Unstructured) bool {
		affinity, _ := affinityOf(o)
		return len(affinity) > 0
	})
	c.patch(changings, "o", `{"spec":{"affinity":{"nodeAffinity":null}}}`)
	emptied := c.await(deployments, "o-web", "with an empty affinity", func(o *unstructured.Unstructured) bool {
		affinity, isSet := affinityOf(o)
		return isSet && len(affinity) == 0
	})
	require.Zero(t, o.stop())

	o = c.start("--kinds", dir)
	c.create(changings, "Changing", "later", map[string]any{"spec": map[string]any{}})
	c.awaitReady(changings, "later")
	web, err := c.get(deployments, "o-web")
	require.NoError(t, err)
	require.Equal(t, emptied.GetGeneration(), web.GetGeneration())
	require.Zero(t, o.stop())
}
