// Package podrules has the rules for what can be added to a Pod: containers and volumes with all
// that belongs to them, labels and annotations, and most settings of the Pod as a whole; not its
// affinity, topologySpreadConstraints, dnsConfig, overhead and resourceClaims. They are those that the API server has in Go code only, by
// pkg/apis/core/validation of k8s.io/kubernetes 1.36 with the feature gates that are on by default,
// after the defaults of pkg/apis/core/v1. The functions here name those that they follow.
//
// It knows the types of core/v1 and nothing else of this program.
package podrules

import (
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePart returns what makes every Pod invalid that a part of a Pod is merged into. Paths
// begin with path. A container without an image is an addition to one of the Pod. What may be
// valid in some Pods is not an error.
func ValidatePart(part *corev1.Pod, path *field.Path) field.ErrorList {
	v := &validator{spec: &part.Spec}
	v.metadata(part, path.Child("metadata"))
	v.pod(path.Child("spec"))
	return v.errs
}

// ValidatePod returns what is wrong with a Pod. Paths name containers and volumes instead of
// counting them.
func ValidatePod(pod *corev1.Pod) field.ErrorList {
	v := &validator{spec: &pod.Spec, whole: true, name: pod.Name}
	v.metadata(pod, field.NewPath("metadata"))
	v.pod(field.NewPath("spec"))
	v.annotations(pod)
	return v.errs
}

// validator collects the errors of one Pod.
type validator struct {
	spec *corev1.PodSpec
	// whole means that the spec is that of a whole Pod; otherwise the rest is not known.
	whole bool
	name  string // of the Pod, if it is known
	errs  field.ErrorList
}

// pod follows ValidatePodSpec.
func (v *validator) pod(path *field.Path) {
	v.volumes(path.Child("volumes"))
	names := make(map[string]bool)
	hostPorts := make(map[hostPort]bool)
	for i := range v.spec.Containers {
		c := &v.spec.Containers[i]
		at := v.item(path.Child("containers"), i, c.Name)
		v.unique(names, c.Name, at.Child("name"))
		v.container(c, at, &containerScope{partial: v.isPartial(c), runs: true})
		v.hostPorts(c, at.Child("ports"), hostPorts)
		v.hostNetworkPorts(c, at.Child("ports"))
	}
	for i := range v.spec.InitContainers {
		c := &v.spec.InitContainers[i]
		at := v.item(path.Child("initContainers"), i, c.Name)
		v.unique(names, c.Name, at.Child("name"))
		runs := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		v.container(c, at, &containerScope{partial: v.isPartial(c), init: true, runs: runs})
		v.hostPorts(c, at.Child("ports"), make(map[hostPort]bool)) // they do not run at the same time
	}
	v.hostProcesses(path)
	v.hostNamespaces(path)
	v.settings(path)
}

// containerScope is what the rules for a container depend on.
type containerScope struct {
	// partial means that the container is an addition to one that is not known.
	partial bool
	init    bool
	// runs means that the container runs while the Pod does: it can have probes and hooks.
	runs bool
}

func (v *validator) isPartial(c *corev1.Container) bool { return !v.whole && c.Image == "" }

// item returns the path of an item of a list.
func (v *validator) item(list *field.Path, i int, name string) *field.Path {
	if v.whole {
		return list.Key(name)
	}
	return list.Index(i)
}

func (v *validator) add(err *field.Error) { v.errs = append(v.errs, err) }

func (v *validator) required(value string, path *field.Path) bool {
	if value == "" {
		v.add(field.Required(path, ""))
	}
	return value != ""
}

func (v *validator) invalid(path *field.Path, value any, messages ...string) {
	for _, message := range messages {
		v.add(field.Invalid(path, value, message))
	}
}

// unique rejects a name that was used before.
func (v *validator) unique(used map[string]bool, name string, path *field.Path) {
	if used[name] {
		v.add(field.Duplicate(path, name))
	}
	used[name] = true
}

// oneOf rejects a value that is not among those supported.
func oneOf[T ~string](v *validator, path *field.Path, value T, supported ...T) {
	if !slices.Contains(supported, value) {
		v.add(field.NotSupported(path, value, supported))
	}
}

// inRange rejects a number outside of a range, both ends included.
func (v *validator) inRange(path *field.Path, value, low, high int64) {
	if value < low || value > high {
		v.invalid(path, value, validation.InclusiveRangeError(int(low), int(high)))
	}
}

// noBacksteps follows validatePathNoBacksteps.
func (v *validator) noBacksteps(path *field.Path, value string) {
	if slices.Contains(strings.Split(value, "/"), "..") {
		v.invalid(path, value, "must not contain '..'")
	}
}

// descending follows validateLocalDescendingPath.
func (v *validator) descending(path *field.Path, value string) {
	if strings.HasPrefix(value, "/") {
		v.invalid(path, value, "must be a relative path")
	}
	v.noBacksteps(path, value)
}

// fileName follows ValidateLocalNonReservedPath.
func (v *validator) fileName(path *field.Path, value string) {
	v.descending(path, value)
	if strings.HasPrefix(value, "..") && !slices.Contains(strings.Split(value, "/"), "..") {
		v.invalid(path, value, "must not start with '..'")
	}
}

// fileMode follows fileModeErrorMsg.
func (v *validator) fileMode(path *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		v.invalid(path, *mode, "must be a number between 0 and 0777 (octal)")
	}
}

// annotations follows validateSeccompAnnotationsAndFields and
// validateAppArmorAnnotationsAndFieldsMatchOnCreate for the containers of a Pod.
func (v *validator) annotations(pod *corev1.Pod) {
	if len(pod.Annotations) == 0 {
		return
	}
	match := func(prefix, name string, profile, localhost *string, path *field.Path) {
		annotation, found := pod.Annotations[prefix+name]
		if found && profile != nil && !profileMatches(annotation, *profile, localhost) {
			v.add(field.Forbidden(path, "does not match the annotation of the Pod for this container"))
		}
	}
	for c, path := range v.containers(field.NewPath("spec")) {
		path = path.Child("securityContext")
		if s := c.SecurityContext; s != nil && s.SeccompProfile != nil {
			match(corev1.SeccompContainerAnnotationKeyPrefix, c.Name, (*string)(&s.SeccompProfile.Type), s.SeccompProfile.LocalhostProfile, path.Child("seccompProfile"))
		}
		var appArmor *corev1.AppArmorProfile
		if s := v.spec.SecurityContext; s != nil {
			appArmor = s.AppArmorProfile
		}
		if s := c.SecurityContext; s != nil && s.AppArmorProfile != nil {
			appArmor = s.AppArmorProfile
		}
		if appArmor != nil && v.os() != corev1.Windows {
			match(corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, c.Name, (*string)(&appArmor.Type), appArmor.LocalhostProfile, path.Child("appArmorProfile"))
		}
	}
}

// profileMatches reports whether the old annotation for a seccomp or AppArmor profile is the same
// as the field.
func profileMatches(annotation, profile string, localhost *string) bool {
	switch profile {
	case string(corev1.SeccompProfileTypeUnconfined):
		return annotation == corev1.SeccompProfileNameUnconfined
	case string(corev1.SeccompProfileTypeRuntimeDefault):
		return annotation == corev1.SeccompProfileRuntimeDefault || annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case string(corev1.SeccompProfileTypeLocalhost):
		return localhost != nil && annotation == corev1.SeccompLocalhostProfileNamePrefix+*localhost
	}
	return true // is rejected for its type
}

// containers returns all containers with their paths.
func (v *validator) containers(path *field.Path) iter.Seq2[*corev1.Container, *field.Path] {
	return func(yield func(*corev1.Container, *field.Path) bool) {
		for i := range v.spec.InitContainers {
			if c := &v.spec.InitContainers[i]; !yield(c, v.item(path.Child("initContainers"), i, c.Name)) {
				return
			}
		}
		for i := range v.spec.Containers {
			if c := &v.spec.Containers[i]; !yield(c, v.item(path.Child("containers"), i, c.Name)) {
				return
			}
		}
	}
}

// os returns the operating system that the Pod names, or "".
func (v *validator) os() corev1.OSName {
	if v.spec.OS == nil {
		return ""
	}
	return v.spec.OS.Name
}
