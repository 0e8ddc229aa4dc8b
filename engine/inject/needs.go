package inject

import (
	"cmp"
	"fmt"
	"slices"
)

// needs is what a Pod must have, and must not have, to stay valid with an injection. Otherwise
// the API server would reject the Pod, which matters more than the injection.
type needs struct {
	// names are names that no container of the other lists may have.
	names []containerName
	// volumes are mounted by containers and not part of the injection; own are part of it.
	volumes, own []string
	// ports are those of app containers: two may not use the same host port.
	ports []containerPort
	// claims are the resource claims of containers that are not part of the injection.
	claims []string
	// linux and windows are the first field each that Pods for the other operating system may
	// not have; nil is none.
	linux, windows []string
	// resources means that resources of the whole Pod are added.
	resources bool
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
	n := needs{resources: spec.Member("resources").IsSet()}
	n.linux, n.windows = systemFields(spec)
	for _, list := range containerLists {
		for _, c := range spec.Member(list).Items {
			name := c.Member("name").String()
			if !isPartial(c) {
				n.names = append(n.names, containerName{list, name})
			}
			for _, mounts := range []string{"volumeMounts", "volumeDevices"} {
				for _, mount := range c.Member(mounts).Items {
					if volume := mount.Member("name").String(); !hasNamed(spec.Member("volumes"), volume) {
						n.volumes = append(n.volumes, volume)
					}
				}
			}
			for _, claim := range c.Member("resources").Member("claims").Items {
				if name := claim.Member("name").String(); !hasNamed(spec.Member("resourceClaims"), name) {
					n.claims = append(n.claims, name)
				}
			}
			for _, port := range c.Member("ports").Items {
				if list == "containers" {
					n.ports = append(n.ports, containerPort{name, port})
				}
			}
		}
	}
	for _, volume := range spec.Member("volumes").Items {
		n.own = append(n.own, volume.Member("name").String())
	}
	slices.Sort(n.volumes)
	n.volumes = slices.Compact(n.volumes)
	slices.Sort(n.claims)
	n.claims = slices.Compact(n.claims)
	return n
}

// check rejects an injection that would make a Pod invalid, or reach more than it may. claims are
// volumes that the Pod will have besides those of its spec.
func (n needs) check(spec value, claims []string) *rejection {
	for _, volume := range n.own {
		if slices.Contains(claims, volume) {
			return conflict("already exists with other content").in("[" + volume + "]").in("volumes").in("spec")
		}
	}
	for _, c := range n.names {
		if c.list == "containers" && spec.Member("containers").Len() == 0 {
			// The API server would reject the Pod, but not with the injected container.
			return (&rejection{reason: Incomplete, detail: "the Pod has no containers of its own"}).in("containers").in(
				"spec")
		}
		for _, list := range containerLists {
			if list != c.list && hasNamed(spec.Member(list), c.name) {
				return conflict("the Pod has another container with that name").in("[" + c.name + "]").in(list).in(
					"spec")
			}
		}
	}
	for _, name := range n.volumes {
		if slices.Contains(claims, name) {
			continue
		}
		volume := named(spec.Member("volumes"), name)
		if !volume.Exists() {
			return (&rejection{reason: Incomplete, detail: fmt.Sprintf("the Pod has no volume %q, which an injected container mounts", name)}).in("volumes").in("spec")
		}
		if source := unshared(volume); source != "" {
			detail := fmt.Sprintf("an injected container cannot mount a volume of the type %s that the Pod brings",
				source)
			return (&rejection{reason: Forbidden, detail: detail}).in("[" + name + "]").in("volumes").in("spec")
		}
	}
	for _, claim := range n.claims {
		if !hasNamed(spec.Member("resourceClaims"), claim) {
			return (&rejection{reason: Incomplete, detail: fmt.Sprintf("the Pod has no resource claim %q, which an injected container uses", claim)}).in("resourceClaims").in("spec")
		}
	}
	if r := n.checkSystem(spec.Member("os").Member("name")); r != nil {
		return r
	}
	onHost := spec.Member("hostNetwork").Is('t')
	for _, added := range n.ports {
		want := hostPort(added.port, onHost)
		for _, c := range spec.Member("containers").Items {
			for _, port := range c.Member("ports").Items {
				if name := c.Member("name").String(); want != "" && name != added.container &&
					hostPort(port, onHost) == want {
					return conflict(fmt.Sprintf("container %q uses the same host port, %s", name, want)).in("ports").in(
						"[" + added.container + "]").in("containers").in("spec")
				}
			}
		}
	}
	return nil
}

// sharedVolumes are the types of the Pod's own volumes that an injected container may mount: those
// that the restricted level of the Pod Security Standards allows. Anyone who may create Pods may
// bring them, and so may the author of an object that injects. The others, such as hostPath, may
// have been granted to the author of the Pod alone.
var sharedVolumes = []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
	"persistentVolumeClaim", "projected", "secret"}

// unshared returns the type of a volume that an injected container may not mount, and "" for others.
func unshared(volume value) string {
	for name, source := range volume.Members {
		if source.IsSet() && !name.Equals("name") && !slices.Contains(sharedVolumes, name.String()) {
			return name.String()
		}
	}
	return ""
}

// hasNamed reports whether a list has an item with that name.
func hasNamed(list value, name string) bool { return named(list, name).Exists() }

// named returns the item of a list with that name, or none.
func named(list value, name string) value {
	for _, item := range list.Items {
		if item.Member("name").Equals(name) {
			return item
		}
	}
	return value{}
}

// hostPort returns the host port that a port uses, with protocol and IP address, which
// distinguish it from others as in AccumulateUniqueHostPorts of k8s.io/kubernetes; "" if it uses
// none. In a Pod on the host's network every container port is a host port.
func hostPort(port value, onHost bool) string {
	number := port.Member("hostPort")
	if !number.IsSet() && onHost {
		number = port.Member("containerPort")
	}
	if !number.IsSet() || string(number.Raw()) == "0" {
		return ""
	}
	protocol := cmp.Or(port.Member("protocol").String(), defaultOf("protocol"))
	return fmt.Sprintf("%s/%s/%s", protocol, port.Member("hostIP").String(), number.Raw())
}

// linuxOnly and windowsOnly are the fields of Pods and of containers that Pods for another
// operating system may not have, by validateWindows and validateLinux of k8s.io/kubernetes.
var (
	linuxOnly      = []string{"hostPID", "hostIPC", "hostUsers", "shareProcessNamespace", "resources"}
	linuxOnlyOfPod = []string{
		"appArmorProfile", "fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsUser", "seLinuxChangePolicy",
		"seLinuxOptions",
		"seccompProfile", "supplementalGroups", "supplementalGroupsPolicy", "sysctls",
	}
	linuxOnlyOfContainer = []string{
		"allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "procMount",
		"readOnlyRootFilesystem",
		"runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile",
	}
	windowsOnly = []string{"windowsOptions"}
)

// systemFields returns the first field of a spec that only Linux has, and the first that only
// Windows has.
func systemFields(spec value) (linux, windows []string) {
	for _, name := range linuxOnly {
		if member := spec.Member(name); member.IsSet() &&
			(!member.Is('f') || name == "hostUsers" || name == "shareProcessNamespace") {
			linux = []string{"spec", name}
			break
		}
	}
	look := func(v value, linuxNames []string, path ...string) {
		context := v.Member("securityContext")
		if name := firstGiven(context, linuxNames); name != "" && linux == nil {
			linux = append(slices.Clone(path), "securityContext", name)
		}
		if name := firstGiven(context, windowsOnly); name != "" && windows == nil {
			windows = append(slices.Clone(path), "securityContext", name)
		}
	}
	look(spec, linuxOnlyOfPod, "spec")
	for _, list := range containerLists {
		for _, c := range spec.Member(list).Items {
			look(c, linuxOnlyOfContainer, "spec", list, "["+c.Member("name").String()+"]")
		}
	}
	return linux, windows
}

// firstGiven returns the first of some members that an object has.
func firstGiven(object value, names []string) string {
	for _, name := range names {
		if member := object.Member(name); member.IsSet() {
			return name
		}
	}
	return ""
}

// checkSystem rejects what a Pod for a certain operating system may not have.
func (n needs) checkSystem(system value) *rejection {
	path := n.linux
	switch {
	case system.Equals("windows"):
	case system.Equals("linux"):
		path = n.windows
	default:
		return nil
	}
	if path == nil {
		return nil
	}
	r := conflict("cannot be set for a Pod whose os.name is " + system.String())
	for _, step := range slices.Backward(path) {
		r = r.in(step)
	}
	return r
}
