package check

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkPod checks what the fields of the spec of a child's Pods have to do with each other.
func checkPod(child *checkedChild, pod *infer.Structure, path string) {
	volumes, known := mountable(child, pod)
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := pod.Items(list)
		for i, container := range containers {
			at := fmt.Sprintf("%s.%s[%d]", path, list, i)
			if known {
				checkMounts(container, volumes, at)
			}
			checkEnvironment(container, at)
			checkProbes(container, at)
			checkResources(container, at)
			if container.IsStruct && container.Fields["image"] == nil && !container.Referred && !container.IsOpen() {
				container.Report(mistake.MissingField, container.Literals[0], "%s.image: is missing: Kubernetes requires it", at)
			}
		}
	}
}

// mountable returns the names of the volumes of the Pods of a child; known is false if there may be
// others.
func mountable(child *checkedChild, pod *infer.Structure) (names []string, known bool) {
	volumes, known := pod.Items("volumes")
	for _, volume := range volumes {
		name, ok := volume.Text("name")
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	if child.gvk.Kind == "StatefulSet" {
		known = known && child.template.In("spec").Fields["volumeClaimTemplates"] == nil
	}
	isInjected := child.gvk.Kind == "Pod" && child.template.In("metadata").Fields["annotations"] != nil // perhaps
	return names, known && !pod.IsOpen() && !isInjected
}

// checkMounts reports mounts of volumes that the Pod does not have.
func checkMounts(container *infer.Structure, volumes []string, path string) {
	mounts, _ := container.Items("volumeMounts")
	for i, mount := range mounts {
		mustParse(mistake.UnknownVolume, mount, "name", fmt.Sprintf("%s.volumeMounts[%d]", path, i),
			func(name string) error {
				if slices.Contains(volumes, name) {
					return nil
				}
				return fmt.Errorf("no volume of the Pod is called %q%s", name, types.DidYouMean(name, volumes))
			})
	}
}

// checkEnvironment reports variables with two values.
func checkEnvironment(container *infer.Structure, path string) {
	variables, _ := container.Items("env")
	for i, variable := range variables {
		if variable.Literal("value") != "" { // the API server takes an empty one as none
			onlyOne(variable, fmt.Sprintf("%s.env[%d]", path, i), "value", "valueFrom")
		}
	}
}

// checkProbes reports probes that do two things, or that name a port that the container does not have.
func checkProbes(container *infer.Structure, path string) {
	names, all := portsOf(container)
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		s := container.In(probe)
		at := path + "." + probe
		onlyOne(s, at, "exec", "grpc", "httpGet", "tcpSocket")
		for _, action := range []string{"httpGet", "tcpSocket"} {
			mustParse(mistake.UnknownPort, s.In(action), "port", at+"."+action, func(name string) error {
				if !all || slices.Contains(names, name) {
					return nil
				}
				return fmt.Errorf("the container has no port called %q%s", name, portHint(name, names))
			})
		}
	}
}

// checkResources reports requests that exceed their limits.
func checkResources(container *infer.Structure, path string) {
	resources := container.In("resources")
	requests, limits := resources.In("requests"), resources.In("limits")
	if !resources.Has("requests") || !resources.Has("limits") {
		return
	}
	for _, name := range requests.Order {
		limit, err := resource.ParseQuantity(fmt.Sprint(limits.Literal(name)))
		if err != nil {
			continue // none, not known, or reported as such
		}
		text := fmt.Sprint(requests.Literal(name))
		if request, err := resource.ParseQuantity(text); err == nil && request.Cmp(limit) > 0 {
			container.Report(mistake.MinimumAboveMaximum, requests.ValueNode(name),
				"%s.resources.requests.%s: %s is more than the limit, %s", path, name, text, limit.String())
		}
	}
}
