package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resourcedPod is the part of a Pod that has its resources.
type resourcedPod struct {
	Spec struct {
		Resources                  corev1.ResourceRequirements
		Containers, InitContainers []resourcedContainer
	}
}

type resourcedContainer struct {
	Name          string
	RestartPolicy *corev1.ContainerRestartPolicy
	Resources     corev1.ResourceRequirements
}

// checkResources rejects an injection after which the containers of a Pod have more than the Pod
// as a whole, as validatePodResourceConsistency of k8s.io/kubernetes does.
func checkResources(text []byte) *rejection {
	at := func(what, name, detail string) *rejection {
		return conflict(detail).in("[" + name + "]").in(what).in("resources").in("spec")
	}
	var pod resourcedPod
	if err := json.Unmarshal(text, &pod); err != nil {
		return conflict("cannot be read").in("resources").in("spec")
	}
	containers := pod.containers()
	requests := defaultedRequests(pod.Spec.Resources)
	sum := resourcehelper.AggregateContainerRequests(containers, resourcehelper.PodResourcesOptions{})
	for _, name := range sortedNames(requests) {
		if all := sum[name]; all.Cmp(requests[name]) > 0 {
			return at("requests", string(name), fmt.Sprintf("is less than the requests of all containers together, %s",
				all.String()))
		}
	}
	limits := pod.Spec.Resources.Limits
	sum = resourcehelper.AggregateContainerLimits(containers, resourcehelper.PodResourcesOptions{})
	for _, name := range sortedNames(limits) {
		if all := sum[name]; strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) &&
			all.Cmp(limits[name]) > 0 {
			return at("limits", string(name), fmt.Sprintf("is less than the limits of all containers together, %s",
				all.String()))
		}
		for _, c := range pod.Spec.Containers {
			if limit := c.Resources.Limits[name]; limit.Cmp(limits[name]) > 0 {
				return at("limits", string(name), fmt.Sprintf("is less than the limit of container %q, %s", c.Name,
					limit.String()))
			}
		}
	}
	return nil
}

// containers returns a Pod with the resources of the containers, and the requests as the API
// server defaults them.
func (p *resourcedPod) containers() *corev1.Pod {
	read := func(containers []resourcedContainer) (all []corev1.Container) {
		for _, c := range containers {
			resources := corev1.ResourceRequirements{Requests: defaultedRequests(c.Resources),
				Limits: c.Resources.Limits}
			all = append(all, corev1.Container{RestartPolicy: c.RestartPolicy, Resources: resources})
		}
		return all
	}
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: read(p.Spec.Containers),
		InitContainers: read(p.Spec.InitContainers)}}
}

// defaultedRequests returns the requests as the API server defaults them: to the limits.
func defaultedRequests(r corev1.ResourceRequirements) corev1.ResourceList {
	requests := maps.Clone(r.Limits)
	if requests == nil {
		return r.Requests
	}
	maps.Copy(requests, r.Requests)
	return requests
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
