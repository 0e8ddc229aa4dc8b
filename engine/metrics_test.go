package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/reconcile"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

func TestMetricsOfReconciles(t *testing.T) {
	t.Parallel()
	m := NewMetrics().forKind(enginetest.Shipped(t, "At"), 4)
	later := time.Now().Add(time.Hour)
	for _, result := range []reconcile.Result{
		{Then: reconcile.Done},
		{Then: reconcile.Done, At: later},
		{Then: reconcile.Done, Recheck: time.Second},
		{Then: reconcile.Again, At: later, Err: errors.New("someone has changed it")},
		{Then: reconcile.Rejected, At: later, Err: errors.New("no")},
		{Then: reconcile.Failed, Err: fmt.Errorf("write: %w", context.DeadlineExceeded)},
	} {
		m.reconciled(time.Now(), result)
	}
	require.NoError(t, testutil.CollectAndCompare(m.Metrics, strings.NewReader(`
# HELP controller_runtime_reconcile_total Reconciles by result.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="error"} 2
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="requeue"} 1
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="requeue_after"} 2
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="success"} 1
# HELP controller_runtime_reconcile_errors_total Reconciles that failed.
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller="ats.cnat.fescue.dev"} 2
# HELP controller_runtime_reconcile_timeouts_total Reconciles that timed out.
# TYPE controller_runtime_reconcile_timeouts_total counter
controller_runtime_reconcile_timeouts_total{controller="ats.cnat.fescue.dev"} 1
`), "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_timeouts_total"))
}

func TestMetricsOfObjects(t *testing.T) {
	t.Parallel()
	m := NewMetrics().forKind(enginetest.Shipped(t, "At"), 4)
	in := func(phase string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", phase)}
	}
	m.saw(nil, in("PENDING"), true)
	m.saw(nil, in("PENDING"), true)
	m.saw(in("PENDING"), in("RUNNING"), true)
	m.saw(in("RUNNING"), in("RUNNING"), true)
	m.saw(in("PENDING"), in("RUNNING"), false) // another replica leads
	m.saw(in("RUNNING"), nil, true)
	require.NoError(t, testutil.CollectAndCompare(m.Metrics, strings.NewReader(`
# HELP fescue_objects Objects by phase; it is empty for kinds without phases and for objects that have none yet.
# TYPE fescue_objects gauge
fescue_objects{controller="ats.cnat.fescue.dev",phase="DONE"} 0
fescue_objects{controller="ats.cnat.fescue.dev",phase="PENDING"} 0
fescue_objects{controller="ats.cnat.fescue.dev",phase="RUNNING"} 1
# HELP fescue_transitions_total Phases that objects entered while this replica acted on them.
# TYPE fescue_transitions_total counter
fescue_transitions_total{controller="ats.cnat.fescue.dev",phase="DONE"} 0
fescue_transitions_total{controller="ats.cnat.fescue.dev",phase="PENDING"} 0
fescue_transitions_total{controller="ats.cnat.fescue.dev",phase="RUNNING"} 1
`), "fescue_objects", "fescue_transitions_total"))
}
