package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A standby keeps in mind that an object is being orphaned: it may have to act on it next.
func TestStandbyKnowsWhatIsOrphaned(t *testing.T) {
	t.Parallel()
	object := keptObject(onDelete, metav1.FinalizerOrphanDependents)
	object.SetDeletionTimestamp(new(metav1.Now()))
	c, _ := keeping(t, object, func(map[string]any) error { return nil })
	require.True(t, c.records.shownOf(object).isOrphaning)
	c.shards = newShards(1)
	require.True(t, c.work(t.Context()))
	require.True(t, c.records.shownOf(object).isOrphaning)
}
