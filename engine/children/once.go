package children

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// IsOnce reports whether a child is created once in a phase.
func IsOnce(child kind.Child) bool {
	return child.Update == kind.Never && child.Phase != "" && child.Set == nil
}

// IsReplaced reports whether a child is created once in each entry of its phase, and replaces that of a former one. One
// that outlives its object may hold data, so it is kept.
func IsReplaced(child kind.Child) bool { return IsOnce(child) && child.OnDelete != kind.Orphan }

// IsFormer reports whether an object was created once in an entry of a phase before that of the wanted one, which has
// its name.
func IsFormer(live, wanted *unstructured.Unstructured) bool {
	o, _ := OriginOf(wanted)
	entered, err := time.Parse(time.RFC3339, Annotation(wanted, AnnotationEntered))
	return err == nil && IsOfEarlierEntry(live, o.Phase, entered)
}

// unmarkedAge is how long before an entry of its phase a child was created that does not show its entry, and counts as
// one of a former entry: longer than the clocks of the operator and the API server differ.
const unmarkedAge = time.Minute

// IsOfEarlierEntry reports whether an object was created in another entry of a phase than the one at a time.
func IsOfEarlierEntry(live *unstructured.Unstructured, phase string, entered time.Time) bool {
	o, isOriginal := OriginOf(live)
	if !isOriginal || o.Phase == "" || o.Phase != phase || entered.IsZero() {
		return false
	}
	if mark, isMarked := entry(live, "annotations", AnnotationEntered); isMarked {
		return mark != EntryOf(entered)
	}
	created := live.GetCreationTimestamp()
	return !created.IsZero() && created.Before(new(metav1.NewTime(entered.Add(-unmarkedAge))))
}

// EntryOf names the entry of a phase at a time.
func EntryOf(entered time.Time) string { return entered.UTC().Format(timeFormat) }

// MarkEntered records the entry of its phase in which a child is created.
func MarkEntered(object *unstructured.Unstructured, entered time.Time) {
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{AnnotationEntered: EntryOf(entered)}))
}

// timeFormat is RFC 3339 to the millisecond, the precision of delays in a phase.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"
