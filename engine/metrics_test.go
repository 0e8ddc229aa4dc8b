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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

func TestMetricsOfReconciles(t *testing.T) {
	t.Parallel()
	m := NewMetrics().forKind(enginetest.Shipped(t, "At"), 4)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "ats"}, "a", errors.New("changed"))
	later := time.Now().Add(time.Hour)
	reconciled := func(wakeAt time.Time, err error) { m.reconciled(time.Now(), resultOf(wakeAt, err), err) }
	reconciled(time.Time{}, nil)
	reconciled(later, nil)
	reconciled(later, fmt.Errorf("write: %w", conflict))
	reconciled(later, &rejectedError{conflict})
	reconciled(time.Time{}, fmt.Errorf("write: %w", context.DeadlineExceeded))
	require.NoError(t, testutil.CollectAndCompare(m.Metrics, strings.NewReader(`
# HELP controller_runtime_reconcile_total Reconciles by result.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="error"} 2
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="requeue"} 1
controller_runtime_reconcile_total{controller="ats.cnat.fescue.dev",result="requeue_after"} 1
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
