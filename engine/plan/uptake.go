package engine

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// conditionInjected stands beside Ready and is there only while Pods have what an object
// adds to them, or ask for it. Ready is about children, which no Pod of others can keep
// an object from having.
const conditionInjected = "Injected"

// The reasons of the condition Injected. Missed Pods come first where there are both:
// they have nothing of the object, as happens while the operator is down.
const (
	reasonInjectedIntoAll = "InjectedIntoAll"
	reasonMissedPods      = "MissedPods"
	reasonOutdatedPods    = "OutdatedPods"
)

// maxPodNames is how many Pods a condition names: enough to begin looking, and few enough
// that the message does not change with every Pod of a large Deployment.
const maxPodNames = 3

// uptake is what the Pods have of one object that injects. Pods that have ended or are
// being deleted count nowhere: nobody has to do anything about them. It is empty if no Pod
// is concerned.
type uptake struct {
	// current Pods have the parts of the object's present generation.
	current int
	// outdated are the names of Pods that have those of another one, and missing of those
	// that ask for the object and have nothing of it. Both are sorted.
	outdated, missing []string
}

// injecting is an object that injects, as far as its uptake depends on it.
type injecting struct {
	InjectedObject
	generation int64
	// annotation is where Pods name the object; selector is for those that do not, and nil
	// if it selects none.
	annotation string
	selector   labels.Selector
}

// countUptake counts Pods of the object's namespace. A generation that is not the present
// one is an older one, also if its number is higher: then it is that of an object that was
// deleted, and this one has its name.
func countUptake(object injecting, pods []*metav1.PartialObjectMetadata, known *Injections) uptake {
	var u uptake
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		generation, carries := known.Injected(pod.Annotations)[object.InjectedObject]
		switch {
		case carries && generation == object.generation:
			u.current++
		case carries:
			u.outdated = append(u.outdated, pod.Name)
		case object.isAskedForBy(pod, known):
			u.missing = append(u.missing, pod.Name)
		}
	}
	slices.Sort(u.outdated)
	slices.Sort(u.missing)
	return u
}

// isAskedForBy tells whether a Pod names the object or is selected by it. Mirror Pods ask
// for nothing: they stand for static ones, which a kubelet runs from its own files.
func (o injecting) isAskedForBy(pod *metav1.PartialObjectMetadata, known *Injections) bool {
	if _, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; isMirror {
		return false
	}
	return slices.Contains(known.Names(pod.Annotations[o.annotation]), o.Name) ||
		o.selector != nil && o.selector.Matches(labels.Set(pod.Labels))
}

func (u uptake) isEmpty() bool { return u.current == 0 && len(u.outdated) == 0 && len(u.missing) == 0 }

// status is contract.#InjectionStatus' injectedPods.
func (u uptake) status() map[string]any {
	return map[string]any{"current": int64(u.current), "outdated": int64(len(u.outdated)), "missing": int64(len(u.missing))}
}

// condition says in one condition how the Pods stand; u must not be empty.
func (u uptake) condition() metav1.Condition {
	c := metav1.Condition{Type: conditionInjected, Status: metav1.ConditionFalse}
	var problems []string
	if len(u.missing) > 0 {
		c.Reason = reasonMissedPods
		problems = append(problems, describePods(u.missing, "asks for it and has nothing of it", "ask for it and have nothing of it"))
	}
	if len(u.outdated) > 0 {
		if c.Reason == "" {
			c.Reason = reasonOutdatedPods
		}
		problems = append(problems, describePods(u.outdated, "has it from an older generation", "have it from an older generation"))
	}
	if len(problems) == 0 {
		c.Status, c.Reason = metav1.ConditionTrue, reasonInjectedIntoAll
		return c
	}
	c.Message = strings.Join(problems, "; ") + "; running Pods are never changed or restarted: what replaces them gets it"
	return c
}

// describePods says of sorted names what is with them.
func describePods(names []string, one, many string) string {
	is, noun := many, "Pods"
	if len(names) == 1 {
		is, noun = one, "Pod"
	}
	listed := strings.Join(names[:min(len(names), maxPodNames)], ", ")
	if len(names) > maxPodNames {
		listed += ", …"
	}
	return fmt.Sprintf("%d %s %s: %s", len(names), noun, is, listed)
}
