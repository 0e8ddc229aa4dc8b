package podrules

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// DependsOnPod reports whether ValidatePod may reject a Pod with a part that ValidatePart accepts,
// for reasons other than names that do not exist or exist twice, fields of one operating system,
// annotations of the Pod, and host processes in it.
func DependsOnPod(part *corev1.Pod) bool {
	other := part.Spec
	other.Containers, other.InitContainers, other.Volumes, other.ImagePullSecrets = nil, nil, nil, nil
	if !reflect.DeepEqual(other, corev1.PodSpec{}) {
		return true
	}
	for _, volume := range part.Spec.Volumes {
		if volume.Ephemeral != nil || volume.PersistentVolumeClaim != nil {
			return true // by the name of the Pod
		}
	}
	return slices.ContainsFunc(newPod(part, nil, false).allContainers(), (*container).dependsOnPod)
}

func (c *container) dependsOnPod() bool {
	if c.isPartial() {
		return true
	}
	if len(c.VolumeDevices) > 0 {
		return true // by hostUsers
	}
	for _, policy := range c.ResizePolicy {
		if policy.RestartPolicy != corev1.NotRequired {
			return true // by restartPolicy
		}
	}
	for _, port := range c.Ports {
		if port.HostPort != 0 {
			return true // by hostNetwork
		}
	}
	for _, variable := range c.Env {
		if variable.ValueFrom != nil && variable.ValueFrom.FileKeyRef != nil {
			return true // by the volumes
		}
	}
	if l := c.Lifecycle; l != nil {
		for _, hook := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
			if hook != nil && hook.Sleep != nil {
				return true // by terminationGracePeriodSeconds
			}
		}
		if l.StopSignal != nil {
			return true // by os
		}
	}
	s := c.SecurityContext
	if s == nil {
		return false
	}
	return s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount || // by hostUsers
		s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil // by the other containers
}
