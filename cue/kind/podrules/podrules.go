// Package podrules has the rules for what can be added to a Pod: containers and volumes with all
// that belongs to them, labels and annotations, and most settings of the Pod as a whole; not its
// affinity, topologySpreadConstraints, dnsConfig, overhead and resourceClaims. They are those that
// the API server has in Go code only, by pkg/apis/core/validation of k8s.io/kubernetes 1.36 with the
// feature gates that are on by default, after the defaults of pkg/apis/core/v1. The functions here
// name those that they follow.
//
// A pod, a container and a volume have the rules for what they are named after: each knows its place
// in the Pod, and shares the Pod's collector of errors. A collector also has the rules for single
// values.
//
// The package knows the types of core/v1 and nothing else of this program.
package podrules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePart returns what makes every Pod invalid that a part of a Pod is merged into. Paths
// begin with path. A container without an image is an addition to one of the Pod. What may be
// valid in some Pods is not an error.
func ValidatePart(part *corev1.Pod, path *field.Path) field.ErrorList {
	p := newPod(part, path, false)
	p.validate()
	return p.errs
}

// ValidatePod returns what is wrong with a Pod. Paths name containers and volumes instead of
// counting them.
func ValidatePod(whole *corev1.Pod) field.ErrorList {
	p := newPod(whole, nil, true)
	p.validate()
	p.profileAnnotations()
	return p.errs
}

// pod is a Pod, or a part of one.
type pod struct {
	*corev1.Pod
	*collector
	// whole means that nothing is missing; of a part, the rest is not known.
	whole                      bool
	metadata, spec             *field.Path
	initContainers, containers []*container
}

// newPod returns the Pod at a path, which is nil for a whole one.
func newPod(of *corev1.Pod, path *field.Path, whole bool) *pod {
	p := &pod{Pod: of, collector: &collector{}, whole: whole, metadata: path.Child("metadata"),
		spec: path.Child("spec")}
	for i := range of.Spec.InitContainers {
		c := &of.Spec.InitContainers[i]
		p.initContainers = append(p.initContainers, &container{c, p.collector, p, p.item("initContainers", i, c.Name),
			true})
	}
	for i := range of.Spec.Containers {
		c := &of.Spec.Containers[i]
		p.containers = append(p.containers, &container{c, p.collector, p, p.item("containers", i, c.Name), false})
	}
	return p
}

// item returns the path of an item of a list of the spec.
func (p *pod) item(list string, i int, name string) *field.Path {
	if p.whole {
		return p.spec.Child(list).Key(name)
	}
	return p.spec.Child(list).Index(i)
}

// allContainers returns the init containers, and then the others.
func (p *pod) allContainers() []*container { return slices.Concat(p.initContainers, p.containers) }

// volume returns the volume with that name, or nil.
func (p *pod) volume(name string) *corev1.Volume {
	i := slices.IndexFunc(p.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Spec.Volumes[i]
}

// os returns the operating system that the Pod names, or "".
func (p *pod) os() corev1.OSName {
	if p.Spec.OS == nil {
		return ""
	}
	return p.Spec.OS.Name
}

// validate follows ValidatePodSpec, and ValidateObjectMeta for what can be added to.
func (p *pod) validate() {
	p.add(metav1validation.ValidateLabels(p.Labels, p.metadata.Child("labels"))...)
	p.add(apivalidation.ValidateAnnotations(p.Annotations, p.metadata.Child("annotations"))...)
	p.volumes()
	names := make(map[string]bool)
	hostPorts := make(map[hostPort]bool)
	for _, c := range p.containers {
		p.unique(names, c.Name, c.path.Child("name"))
		c.validate()
		c.hostPorts(hostPorts)
		c.hostNetworkPorts()
	}
	for _, c := range p.initContainers {
		p.unique(names, c.Name, c.path.Child("name"))
		c.validate()
		c.hostPorts(make(map[hostPort]bool)) // they do not run at the same time
	}
	p.hostProcesses()
	p.hostNamespaces()
	p.settings()
}
