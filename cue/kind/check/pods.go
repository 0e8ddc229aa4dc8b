package check

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// pod checks what the fields of a Pod have to do with each other. way leads to its template in that of
// the child.
func (c *Checker) pod(child *checkedChild, way []string, prefix string) {
	path := append(slices.Clone(way), "spec")
	pod := c.structureIn(child.template, path...)
	prefix += strings.Join(path, ".")
	mountable, known := c.mountable(child, pod)
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := c.structuresIn(pod, list)
		for i, container := range containers {
			at := fmt.Sprintf("%s.%s[%d]", prefix, list, i)
			if known {
				c.mounts(container, mountable, at)
			}
			c.environment(container, at)
			c.probes(container, at)
			c.resources(container, at)
		}
	}
}

// mountable returns the names of the volumes of the Pods of a child; known is false if there may be
// others.
func (c *Checker) mountable(child *checkedChild, pod *Structure) (names []string, known bool) {
	volumes, known := c.structuresIn(pod, "volumes")
	for _, volume := range volumes {
		name, ok := c.constantOf(volume, "name")
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	if child.gvk.Kind == "StatefulSet" {
		known = known && c.structureIn(child.template, "spec").Fields["volumeClaimTemplates"] == nil
	}
	isInjected := child.gvk.Kind == "Pod" && c.structureIn(child.template, "metadata").Fields["annotations"] != nil // perhaps
	return names, known && !pod.isOpen() && !isInjected
}

// mounts reports mounts of volumes that the Pod does not have.
func (c *Checker) mounts(container *Structure, volumes []string, path string) {
	mounts, _ := c.structuresIn(container, "volumeMounts")
	for i, mount := range mounts {
		c.mustParse(mount, "name", fmt.Sprintf("%s.volumeMounts[%d]", path, i), func(name string) error {
			if slices.Contains(volumes, name) {
				return nil
			}
			return fmt.Errorf("no volume of the Pod is called %q%s", name, types.DidYouMean(name, volumes))
		})
	}
}

// environment reports variables with two values.
func (c *Checker) environment(container *Structure, path string) {
	variables, _ := c.structuresIn(container, "env")
	for i, variable := range variables {
		if c.literalIn(variable, "value") != "" { // the API server takes an empty one as none
			c.onlyOne(variable, fmt.Sprintf("%s.env[%d]", path, i), "value", "valueFrom")
		}
	}
}

// probes reports probes that do two things, or that name a port that the container does not have.
func (c *Checker) probes(container *Structure, path string) {
	names, all := c.portsOf(container)
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		s := c.structureIn(container, probe)
		at := path + "." + probe
		c.onlyOne(s, at, "exec", "grpc", "httpGet", "tcpSocket")
		for _, action := range []string{"httpGet", "tcpSocket"} {
			c.mustParse(c.structureIn(s, action), "port", at+"."+action, func(name string) error {
				if !all || slices.Contains(names, name) {
					return nil
				}
				return fmt.Errorf("the container has no port called %q%s", name, portHint(name, names))
			})
		}
	}
}

// resources reports requests that exceed their limits.
func (c *Checker) resources(container *Structure, path string) {
	resources := c.structureIn(container, "resources")
	requests, limits := c.structureIn(resources, "requests"), c.structureIn(resources, "limits")
	for _, name := range requests.Order {
		limit, err := resource.ParseQuantity(fmt.Sprint(c.literalIn(limits, name)))
		if err != nil {
			continue // none, not known, or reported as such
		}
		text := fmt.Sprint(c.literalIn(requests, name))
		if request, err := resource.ParseQuantity(text); err == nil && request.Cmp(limit) > 0 {
			c.report(c.valueNode(requests.Fields[name]), "%s.resources.requests.%s: %s is more than the limit, %s", path, name, text, limit.String())
		}
	}
}
