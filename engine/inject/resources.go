package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// resourcedPod is what of a Pod says which resources it has.
type resourcedPod struct{ Spec podResources }

type podResources struct {
	Resources                  corev1.ResourceRequirements
	Containers, InitContainers []resourcedContainer
}

type resourcedContainer struct {
	Name          string
	RestartPolicy corev1.ContainerRestartPolicy
	Resources     corev1.ResourceRequirements
}

// checkResources refuses an injection after which the containers of a Pod have more than the Pod
// as a whole, as validatePodResourceConsistency of k8s.io/kubernetes does.
func checkResources(text []byte) *refusal {
	at := func(what, name, detail string) *refusal {
		return conflict(detail).in("[" + name + "]").in(what).in("resources").in("spec")
	}
	var pod resourcedPod
	if err := json.Unmarshal(text, &pod); err != nil {
		return conflict("cannot be read").in("resources").in("spec")
	}
	spec := pod.Spec
	requests := defaultedRequests(spec.Resources)
	sum := spec.sum(defaultedRequests)
	for _, name := range sortedNames(requests) {
		if all := sum[name]; all.Cmp(requests[name]) > 0 {
			return at("requests", string(name), fmt.Sprintf("is less than what the containers would request together, %s", all.String()))
		}
	}
	limits := spec.Resources.Limits
	sum = spec.sum(func(r corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })
	for _, name := range sortedNames(limits) {
		if all := sum[name]; strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && all.Cmp(limits[name]) > 0 {
			return at("limits", string(name), fmt.Sprintf("is less than the limits of the containers together, %s", all.String()))
		}
		for _, c := range spec.Containers {
			if limit := c.Resources.Limits[name]; limit.Cmp(limits[name]) > 0 {
				return at("limits", string(name), fmt.Sprintf("is less than the limit of container %q, %s", c.Name, limit.String()))
			}
		}
	}
	return nil
}

// defaultedRequests are the requests as the API server sets their defaults: the limits.
func defaultedRequests(r corev1.ResourceRequirements) corev1.ResourceList {
	requests := maps.Clone(r.Limits)
	if requests == nil {
		return r.Requests
	}
	maps.Copy(requests, r.Requests)
	return requests
}

// sum is what all containers have together: those that run at the same time, of the time when
// that is most.
func (p *podResources) sum(of func(corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	running, initial, sidecars := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for _, c := range p.Containers {
		add(running, of(c.Resources))
	}
	for _, c := range p.InitContainers {
		now := maps.Clone(sidecars)
		add(now, of(c.Resources))
		if c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = now
			add(running, of(c.Resources))
		}
		raise(initial, now)
	}
	raise(running, initial)
	return running
}

// add adds resources to others.
func add(to, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := to[name].DeepCopy()
		sum.Add(quantity)
		to[name] = sum
	}
}

// raise makes resources at least as much as others.
func raise(to, least corev1.ResourceList) {
	for name, quantity := range least {
		if have, ok := to[name]; !ok || quantity.Cmp(have) > 0 {
			to[name] = quantity
		}
	}
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
