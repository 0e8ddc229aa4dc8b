package vet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/manifest"
)

// stallFindings reports where an object would be stalled: when it is created, with the children
// among the other objects, while its children come up, and when it is deleted after that. The API server, whose part
// the types take, rejects children that do not fit them. Advice goes to the report. content is the object as it is
// stored.
func (v *Vetter) stallFindings(
	k *kind.Kind, object manifest.Object, content map[string]any, others []manifest.Object,
) []Finding {
	u := &unstructured.Unstructured{Object: content}
	observed := make([]*unstructured.Unstructured, len(others))
	for i := range others {
		observed[i] = &unstructured.Unstructured{Object: others[i].Content}
	}
	now := time.Now()
	l := newLife(k, v.catalog, u, observed, now)
	for _, situation := range []struct {
		name    string
		stalled func() (string, error)
	}{
		{"when it is created", func() (string, error) { return v.stalledWhenRendered(k, u, nil, now) }},
		{"with the objects in this file", func() (string, error) { return v.stalledWhenRendered(k, u, observed, now) }},
		{"on a healthy cluster", l.begin},
		{"when it is deleted", func() (string, error) { return l.end(true) }},
	} {
		message, err := situation.stalled()
		if err != nil {
			message = err.Error()
		}
		if message != "" {
			return []Finding{stalledFinding(object, situation.name, message)}
		}
	}
	if where := l.stays(); where != "" {
		f := foundIn(object, mistake.BlockedDeletion, adviceType, "when it is deleted")
		f.Message = fmt.Sprintf(
			"advice: after it is deleted on a healthy cluster, the object stays %s, until someone changes it or what it reads", where)
		v.Report.Advice = append(v.Report.Advice, f)
	}
	if k.Target != nil {
		return nil // it has no status
	}
	return v.outlookFindings(k, object, u, observed, l.cluster.Reached(k), now)
}

func stalledFinding(object manifest.Object, situation, message string) Finding {
	f := foundIn(object, mistake.StalledObject, stalledType, situation)
	f.Message = fmt.Sprintf("%s, the object would be stalled: %s", situation, message)
	return f
}

func foundIn(object manifest.Object, check mistake.Check, findingType, situation string) Finding {
	f := About(object).At(object.Locate("kind").Value.Position)
	f.Check, f.Type, f.Detail = check, findingType, situation
	return f
}

// stalledWhenRendered returns why an object is stalled among objects, now.
func (v *Vetter) stalledWhenRendered(
	k *kind.Kind, object *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time,
) (string, error) {
	rendering, err := simulate.Render(k, object, observed, now)
	if err != nil {
		return "", err
	}
	return v.StalledAs(rendering), nil
}

// StalledAs returns why an object would be stalled that is rendered so; "" if it would not be.
func (v *Vetter) StalledAs(rendering *simulate.Rendering) string {
	if stalled := cmp.Or(rendering.Problem, stalledBy(rendering.Status)); stalled != "" {
		return stalled
	}
	for _, child := range rendering.Children {
		if rejected := v.rejected(&unstructured.Unstructured{Object: child}); rejected != "" {
			return rejected
		}
	}
	return ""
}

// rejected returns why the API server would reject a child; "" if nothing is known against it.
func (v *Vetter) rejected(child *unstructured.Unstructured) string {
	if errs := v.catalog.ValidateChild(child.Object); len(errs) > 0 {
		return fmt.Sprintf("%s %q: %v", child.GetKind(), child.GetName(), errs[0])
	}
	return ""
}

// stalledBy returns the message of the condition Stalled of a status; "" if the object is not.
func stalledBy(status map[string]any) string {
	if c := conditionOf(status, kind.ConditionStalled); c["status"] == "True" {
		message, _ := c["message"].(string)
		return message
	}
	return ""
}

// conditionOf returns a condition of a status; nil if there is none of that type.
func conditionOf(status map[string]any, conditionType string) map[string]any {
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// IsForBehaviour reports whether an object in a file is there for the behaviour of a kind: it is of a
// type that the kind looks up, or stands for a child, with a label of children and a type that the kind
// owns.
func (v *Vetter) IsForBehaviour(gvk schema.GroupVersionKind, object manifest.Object) bool {
	labels := (&unstructured.Unstructured{Object: object.Content}).GetLabels()
	isLabelled := slices.ContainsFunc(children.OwnLabels, func(name string) bool { return labels[name] != "" })
	return slices.ContainsFunc(v.catalog.Added(), func(k *kind.Kind) bool {
		return k.Lookups.Has(gvk) || isLabelled && slices.Contains(k.Owns, gvk)
	})
}
