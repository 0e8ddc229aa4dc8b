package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// childPods are the Pods that a child has, as far as they are the same for all objects.
type childPods struct {
	labels map[string]labelValue
	ports  []string // their names
	// hasAllLabels and hasAllPorts mean that there are no others.
	hasAllLabels, hasAllPorts bool
}

// selectors are where types of children select Pods of other children.
var selectors = map[string][]string{"Service": {"selector"}, "PodDisruptionBudget": {"selector", "matchLabels"}}

// selections checks that Services and budgets of a kind select Pods of its other children, and that
// these have the ports that the Services name, if all Pods that it may create are known.
func (c *Checker) selections(children []*checkedChild) {
	pods := podsOf(children)
	if len(pods) == 0 || c.unknownChildren {
		return
	}
	for _, child := range children {
		way, ok := selectors[child.gvk.Kind]
		if !ok {
			continue
		}
		spec := child.template.In("spec")
		selector, _ := labelsAt(spec, way...)
		if len(selector) == 0 {
			continue
		}
		key, why := "", ""
		var selected []childPods
		for _, p := range pods {
			k, w := mismatchOf(selector, p.labels, p.hasAllLabels)
			if k == "" {
				selected = append(selected, p)
			}
			if key == "" {
				key, why = k, w
			}
		}
		switch path := child.path + ".template.spec."; {
		case len(selected) == 0:
			c.Report(mistake.SelectorWithoutPods, spec.Fields["selector"].Node,
				"%s%s.%s: no child has such Pods: they %s", path, strings.Join(way, "."), key, why)
		case child.gvk.Kind == "Service":
			checkTargetPorts(spec, selected, path+"ports")
		}
	}
}

// podsOf returns the Pods of children; nil if not all are known.
func podsOf(children []*checkedChild) (pods []childPods) {
	for _, child := range children {
		if !child.known || !isBuiltIn(child.gvk) {
			return nil
		}
		way, ok := types.PodTemplate(child.gvk.GroupKind())
		if !ok {
			continue
		}
		var p childPods
		p.labels, p.hasAllLabels = labelsAt(child.template, append(slices.Clone(way), "metadata", "labels")...)
		p.ports, p.hasAllPorts = podPorts(child.template.In(way...))
		pods = append(pods, p)
	}
	return pods
}

// podPorts returns the names of the ports of the containers of a Pod; all is false if there may be
// others. A Pod with annotations may get containers by them.
func podPorts(template *infer.Structure) (names []string, all bool) {
	pod, metadata := template.In("spec"), template.In("metadata")
	all = !template.IsOpen() && !pod.IsOpen() && !metadata.IsOpen() && metadata.Fields["annotations"] == nil
	for _, list := range []string{"initContainers", "containers"} {
		containers, known := pod.Items(list)
		all = all && known
		for _, container := range containers {
			ports, known := portsOf(container)
			names, all = append(names, ports...), all && known
		}
	}
	return names, all
}

// portsOf returns the names of the ports of a container; all is false if there may be others.
func portsOf(container *infer.Structure) (names []string, all bool) {
	ports, all := container.Items("ports")
	all = all && !container.IsOpen()
	for _, port := range ports {
		name, known := port.Text("name")
		if known {
			names = append(names, name)
		}
		all = all && !port.IsOpen() && (known || port.Fields["name"] == nil)
	}
	return names, all
}

// checkTargetPorts reports ports of a Service that lead to a port by a name that no Pod has.
func checkTargetPorts(service *infer.Structure, pods []childPods, path string) {
	var known []string
	for _, p := range pods {
		if !p.hasAllPorts {
			return
		}
		known = append(known, p.ports...)
	}
	ports, _ := service.Items("ports")
	for i, port := range ports {
		mustParse(mistake.UnknownPort, port, "targetPort", fmt.Sprintf("%s[%d]", path, i), func(name string) error {
			if slices.Contains(known, name) {
				return nil
			}
			return fmt.Errorf("the Pods that the Service selects have no port called %q%s", name, portHint(name, known))
		})
	}
}

// checkServiceType checks what the type of a Service allows and requires.
func checkServiceType(service *infer.Structure, path string) {
	ofType, isKnown := service.OnlyText("type")
	if service.Fields["type"] == nil && !service.IsOpen() {
		ofType, isKnown = string(corev1.ServiceTypeClusterIP), true
	}
	address, _ := service.OnlyText("clusterIP")
	isCertain := service.Has("clusterIP") && service.Has("type")
	isHeadless := address == corev1.ClusterIPNone
	switch corev1.ServiceType(ofType) {
	case corev1.ServiceTypeClusterIP:
		ports, _ := service.Items("ports")
		for i, port := range ports {
			if port.Has("nodePort") && port.Literal("nodePort") != int64(0) {
				port.Report(mistake.MutuallyExclusive, port.Fields["nodePort"].Node,
					"%s.ports[%d].nodePort: cannot be set with the type ClusterIP: write type: \"NodePort\"", path, i)
			}
		}
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if isHeadless && isCertain {
			service.Report(mistake.MutuallyExclusive, service.ValueNode("clusterIP"),
				"%s.clusterIP: cannot be \"None\" with the type %s: remove one of them", path, ofType)
		}
	}
	hasOwnAddress := service.Fields["clusterIP"] == nil
	if isKnown && hasOwnAddress && ofType != string(corev1.ServiceTypeExternalName) {
		mustHave(service, "ports", path, `Kubernetes requires it, unless clusterIP is "None"`)
	}
}

// checkBackends checks the ports of the Services to which an Ingress leads.
func checkBackends(ingress *infer.Structure, path string) {
	onlyOne(ingress.In("defaultBackend", "service", "port"), path+".defaultBackend.service.port", "number", "name")
	rules, _ := ingress.Items("rules")
	for i, rule := range rules {
		paths, _ := rule.In("http").Items("paths")
		for j, one := range paths {
			onlyOne(one.In("backend", "service", "port"),
				fmt.Sprintf("%s.rules[%d].http.paths[%d].backend.service.port", path, i, j), "number", "name")
		}
	}
}

// portHint says what to write instead of the name of a port that does not exist.
func portHint(name string, known []string) string {
	if _, err := strconv.Atoi(name); err == nil {
		return ": write " + name
	}
	if near := types.DidYouMean(name, known); near != "" {
		return near
	}
	if len(known) == 0 {
		return ", since none has a name: add name: " + strconv.Quote(name) + " to a port, or write its number"
	}
	return ": there are " + strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", ")
}
