package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// backupKind runs two Jobs with constant names each night, before it goes, and again when the first has failed and
// somebody asks for that. A third
// child outlives its object.
const backupKind = `
package backup

import "fescue.dev/cue/contract"

#Backup: {
	apiVersion!: "backups.example.com/v1", kind!: "Backup", metadata!: {name!: string, ...}
	spec: retry: *false | bool
	status?: {contract.#Status, contract.#ScheduleStatus, phase?: "WAITING" | "RUNNING" | "FAILED" | "GONE"}
}
#BackupController: contract.#Controller & {
	object!: #Backup
	observed: _
	names: plural: "backups"
	owns: [{apiVersion: "batch/v1", kind: "Job"}, {apiVersion: "v1", kind: "ConfigMap"}]
	_leaving: object.metadata.deletionTimestamp != _|_
	_job: {apiVersion: "batch/v1", kind: "Job", spec: template: spec: {restartPolicy: "Never", containers: [{name: "c", image: "c"}]}}
	initial: "WAITING"
	onDelete: "RUNNING"
	phases: {
		WAITING: next: [{to: "RUNNING", cron: "0 3 * * *"}]
		RUNNING: {
			children: {
				dump: {update: "Never", template: _job}
				if (*observed.dump.status.succeeded | 0) > 0 {load: {update: "Never", template: _job}}
				data: {update: "Never", onDelete: "Orphan", template: {apiVersion: "v1", kind: "ConfigMap"}}
			}
			next: [
				{to: "FAILED", when: observed.dump.status.failed > 0},
				if _leaving {to: "GONE", when: observed.load.status.succeeded > 0},
				if !_leaving {to: "WAITING", when: observed.load.status.succeeded > 0},
			]
		}
		FAILED: next: [{to: "RUNNING", when: observed.dump.status.failed > 0 && object.spec.retry}]
		GONE: terminal: true
	}
}
`

// backups is a cluster with a Backup whose Jobs run until a test ends them.
type backups struct {
	*Cluster
	t *testing.T
	k *kind.Kind
}

func newBackup(t *testing.T) *backups {
	t.Helper()
	k := enginetest.Kind(t, backupKind)
	b := &backups{New([]*kind.Kind{k}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), t, k}
	b.Hold(Selection{Type: "job"})
	require.NoError(t, b.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "backups.example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{},
	}}))
	require.NoError(t, b.Settle())
	return b
}

func (b *backups) backup() *unstructured.Unstructured {
	return b.find(b.k.GroupVersionKind, "default", "a")
}

func (b *backups) job(name string) *unstructured.Unstructured {
	return b.find(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "default", name)
}

func (b *backups) phase() string { return kind.PhaseOf(b.backup().Object) }

// end ends a Job.
func (b *backups) end(name, field string) {
	b.t.Helper()
	require.NoError(b.t, b.Patch(b.job(name), map[string]any{"status": map[string]any{field: int64(1)}}))
	require.NoError(b.t, b.Settle())
}

// retry asks for another try, or no longer.
func (b *backups) retry(wanted bool) {
	b.t.Helper()
	require.NoError(b.t, b.Patch(b.backup(), map[string]any{"spec": map[string]any{"retry": wanted}}))
	require.NoError(b.t, b.Settle())
}

// writes returns the creations and deletions since the last call.
func (b *backups) writes() (texts []string) {
	for _, r := range b.Take() {
		if r.Step != nil {
			texts = append(texts, r.String())
		}
	}
	return texts
}

// night passes until the next backup runs, and requires its writes.
func (b *backups) night(want ...string) {
	b.t.Helper()
	require.NoError(b.t, b.Wait(24*time.Hour))
	require.Equal(b.t, want, b.writes())
	require.Equal(b.t, "RUNNING", b.phase())
}

// A phase that is entered again creates its children again, under the same names, and sees none of the last time.
func TestEveryEntryCreatesItsChildren(t *testing.T) {
	t.Parallel()
	b := newBackup(t)
	load := []string{"create Job/a-load"}
	b.night("create ConfigMap/a-data", "create Job/a-dump")
	for range 3 {
		dump := b.job("a-dump").GetUID()
		b.end("a-dump", "succeeded")
		require.Equal(t, load, b.writes())
		b.Restart()
		require.NoError(t, b.Settle())
		require.Equal(t, "RUNNING", b.phase(), "the Job of last night is not seen")
		b.end("a-load", "succeeded")
		require.Equal(t, "WAITING", b.phase())
		require.Equal(t, dump, b.job("a-dump").GetUID(), "it stays until the phase is entered again")
		b.night("delete Job/a-dump", "create Job/a-dump")
		require.NotEqual(t, dump, b.job("a-dump").GetUID())
		load = []string{"delete Job/a-load", "create Job/a-load"}
	}
}

// A phase may be entered again at the same time, and because of what its children were.
func TestEntriesAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := newBackup(t)
	b.night("create ConfigMap/a-data", "create Job/a-dump")
	for range 3 {
		b.end("a-dump", "failed")
		require.Equal(t, "FAILED", b.phase())
		b.retry(true)
		require.Equal(t, "RUNNING", b.phase())
		b.retry(false)
		require.Equal(t, []string{"delete Job/a-dump", "create Job/a-dump"}, b.writes())
	}
	b.end("a-dump", "succeeded")
	b.end("a-load", "succeeded")
	require.Equal(t, "WAITING", b.phase())
}

// What ran on other days does not stand in for what has to run before an object goes.
func TestTheLastEntryRunsToo(t *testing.T) {
	t.Parallel()
	b := newBackup(t)
	b.night("create ConfigMap/a-data", "create Job/a-dump")
	b.end("a-dump", "succeeded")
	b.end("a-load", "succeeded")
	b.writes()
	b.Delete(b.backup())
	require.NoError(t, b.Settle())
	require.Equal(t, []string{"delete Job/a-dump", "create Job/a-dump"}, b.writes())
	b.end("a-dump", "succeeded")
	require.NotNil(t, b.backup())
	b.end("a-load", "succeeded")
	require.Nil(t, b.backup())
}

// A child that does not show its entry is of a former one if it is older than the entry, and gets the mark otherwise.
func TestChildrenWithoutAnEntry(t *testing.T) {
	t.Parallel()
	b := newBackup(t)
	b.night("create ConfigMap/a-data", "create Job/a-dump")
	unmark := func() {
		job := b.job("a-dump").DeepCopy()
		annotations := job.GetAnnotations()
		delete(annotations, children.AnnotationEntered)
		job.SetAnnotations(annotations)
		b.replace(b.job("a-dump"), job, reconciled{})
		b.Restart()
		require.NoError(t, b.Settle())
	}
	unmark()
	require.Equal(t, []string{"adopt Job/a-dump"}, b.writes())
	b.end("a-dump", "succeeded")
	b.end("a-load", "succeeded")
	require.Equal(t, []string{"create Job/a-load"}, b.writes())
	unmark()
	b.night("delete Job/a-dump", "create Job/a-dump")
}

// A child that is of the present entry stays when somebody changes what shows that, once its UID is recorded, and the
// mark is restored.
func TestAChangedEntryRepeatsNothing(t *testing.T) {
	t.Parallel()
	b := newBackup(t)
	b.night("create ConfigMap/a-data", "create Job/a-dump")
	require.NoError(t, b.Patch(b.job("a-dump"), map[string]any{"metadata": map[string]any{"annotations": map[string]any{children.AnnotationEntered: "x"}}}))
	b.Restart()
	require.NoError(t, b.Wait(time.Hour))
	require.Equal(t, []string{"adopt Job/a-dump"}, b.writes())
}
