package inject

import (
	"cmp"
	"fmt"
	"slices"
)

// needs is what a Pod must have, and what it must not, for an injection to leave it
// valid. The API server would refuse the Pod otherwise, and the Pod is what counts.
type needs struct {
	// names are those that no container of the other lists may have.
	names []containerName
	// volumes are those that containers mount and that the injection does not bring.
	volumes []string
	// ports are those of app containers: two may not have one port of the host.
	ports []containerPort
}

type containerName struct{ list, name string }

type containerPort struct {
	container string
	port      value
}

// containerLists share the names of their containers.
var containerLists = []string{"containers", "ephemeralContainers", "initContainers"}

// needsOf collects, once for all Pods, the needs of the spec that an injection adds.
func needsOf(spec value) needs {
	var n needs
	for _, list := range containerLists {
		for _, c := range spec.member(list).items {
			name := c.member("name").string()
			if !isPartial(c) {
				n.names = append(n.names, containerName{list, name})
			}
			for _, mounts := range []string{"volumeMounts", "volumeDevices"} {
				for _, mount := range c.member(mounts).items {
					if volume := mount.member("name").string(); !hasNamed(spec.member("volumes"), volume) {
						n.volumes = append(n.volumes, volume)
					}
				}
			}
			for _, port := range c.member("ports").items {
				if list == "containers" {
					n.ports = append(n.ports, containerPort{name, port})
				}
			}
		}
	}
	slices.Sort(n.volumes)
	n.volumes = slices.Compact(n.volumes)
	return n
}

// check refuses an injection that would make a Pod invalid.
func (n needs) check(spec value) *refusal {
	for _, c := range n.names {
		if c.list == "containers" && spec.member("containers").length() == 0 {
			// The API server would refuse the Pod, and with our container it would not.
			return (&refusal{reason: Incomplete, detail: "the Pod has none of its own"}).in("containers").in("spec")
		}
		for _, list := range containerLists {
			if list != c.list && hasNamed(spec.member(list), c.name) {
				return conflict("the Pod has another container of that name").in("[" + c.name + "]").in(list).in("spec")
			}
		}
	}
	for _, volume := range n.volumes {
		if !hasNamed(spec.member("volumes"), volume) {
			return (&refusal{reason: Incomplete, detail: fmt.Sprintf("the Pod has no volume %q, which a container to be added mounts", volume)}).in("volumes").in("spec")
		}
	}
	onHost := spec.member("hostNetwork").is('t')
	for _, mine := range n.ports {
		want := hostPort(mine.port, onHost)
		for _, c := range spec.member("containers").items {
			for _, port := range c.member("ports").items {
				if name := c.member("name").string(); want != "" && name != mine.container && hostPort(port, onHost) == want {
					return conflict(fmt.Sprintf("container %q has the same port of the host, %s", name, want)).in("ports").in("[" + mine.container + "]").in("containers").in("spec")
				}
			}
		}
	}
	return nil
}

// hasNamed tells whether a list has an item of that name.
func hasNamed(list value, name string) bool {
	for _, item := range list.items {
		if item.member("name").equals(name) {
			return true
		}
	}
	return false
}

// hostPort is the port of the host that a port takes, with what tells it apart from
// others, as in AccumulateUniqueHostPorts of k8s.io/kubernetes; "" if it takes none. In a
// Pod on the host's network every port of a container is one of the host's.
func hostPort(port value, onHost bool) string {
	number := port.member("hostPort")
	if !number.given() && onHost {
		number = port.member("containerPort")
	}
	if !number.given() || string(number.raw()) == "0" {
		return ""
	}
	protocol := cmp.Or(port.member("protocol").string(), defaultOf("protocol"))
	return fmt.Sprintf("%s/%s/%s", protocol, port.member("hostIP").string(), number.raw())
}
