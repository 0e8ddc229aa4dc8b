package podrules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// container is a container of a Pod, or an addition to one that is not known.
type container struct {
	*corev1.Container
	*collector
	pod  *pod
	path *field.Path
	init bool
}

// isPartial reports whether the container is an addition to one that is not known.
func (c *container) isPartial() bool { return !c.pod.whole && c.Image == "" }

// completes reports whether the container ends before others start, so that it has no probes and hooks.
func (c *container) completes() bool {
	sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	return c.init && !sidecar && !c.isPartial()
}

// validate follows validateContainerCommon, and validateContainers or validateInitContainers.
func (c *container) validate() {
	c.invalid(c.path.Child("name"), c.Name, validation.IsDNS1123Label(c.Name)...)
	switch {
	case c.isPartial():
	case c.required(c.Image, c.path.Child("image")) && strings.TrimSpace(c.Image) != c.Image:
		c.invalid(c.path.Child("image"), c.Image, "must not have leading or trailing whitespace")
	}
	oneOf(c.collector, c.path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, "",
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	c.pullPolicy(c.path.Child("imagePullPolicy"), c.ImagePullPolicy)
	c.ports()
	c.env()
	c.mounts()
	c.devices()
	c.resources()
	c.resizePolicy()
	c.securityContext()
	c.restartPolicy()
	c.handlers()
}

// ports follows validateContainerPorts.
func (c *container) ports() {
	names := make(map[string]bool)
	for i, port := range c.Ports {
		path := c.path.Child("ports").Index(i)
		if port.Name != "" {
			c.invalid(path.Child("name"), port.Name, validation.IsValidPortName(port.Name)...)
			c.unique(names, port.Name, path.Child("name"))
		}
		c.invalid(path.Child("containerPort"), port.ContainerPort,
			validation.IsValidPortNum(int(port.ContainerPort))...)
		if port.HostPort != 0 {
			c.invalid(path.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort))...)
		}
		oneOf(c.collector, path.Child("protocol"), port.Protocol, "", corev1.ProtocolTCP, corev1.ProtocolUDP,
			corev1.ProtocolSCTP)
	}
}

// hostPort identifies a port of the node.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

// hostPorts follows AccumulateUniqueHostPorts, after defaultHostNetworkPorts.
func (c *container) hostPorts(used map[hostPort]bool) {
	for i, port := range c.Ports {
		h := hostPort{port.Protocol, port.HostIP, port.HostPort}
		if h.protocol == "" {
			h.protocol = corev1.ProtocolTCP
		}
		if h.port == 0 && c.pod.Spec.HostNetwork {
			h.port = port.ContainerPort
		}
		if h.port == 0 {
			continue
		}
		if used[h] {
			c.add(field.Duplicate(c.path.Child("ports").Index(i).Child("hostPort"),
				fmt.Sprintf("%s/%s/%d", h.protocol, h.ip, h.port)))
		}
		used[h] = true
	}
}

// hostNetworkPorts follows validatePodHostNetworkDeps.
func (c *container) hostNetworkPorts() {
	for i, port := range c.Ports {
		if c.pod.Spec.HostNetwork && port.HostPort != 0 && port.HostPort != port.ContainerPort {
			c.invalid(c.path.Child("ports").Index(i).Child("hostPort"), port.HostPort,
				"must match `containerPort` when `hostNetwork` is true")
		}
	}
}

// mounts follows ValidateVolumeMounts.
func (c *container) mounts() {
	devices, devicePaths := make(map[string]bool), make(map[string]bool)
	for _, device := range c.VolumeDevices {
		devices[device.Name], devicePaths[device.DevicePath] = true, true
	}
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	mountPaths := make(map[string]bool)
	for i, mount := range c.VolumeMounts {
		path := c.path.Child("volumeMounts").Index(i)
		if c.required(mount.Name, path.Child("name")) && c.pod.whole && c.pod.volume(mount.Name) == nil {
			c.add(field.NotFound(path.Child("name"), mount.Name))
		}
		c.required(mount.MountPath, path.Child("mountPath"))
		c.unique(mountPaths, mount.MountPath, path.Child("mountPath"))
		if devices[mount.Name] {
			c.invalid(path.Child("name"), mount.Name, "must not already exist in volumeDevices")
		}
		if devicePaths[mount.MountPath] {
			c.invalid(path.Child("mountPath"), mount.MountPath, "must not already exist as a path in volumeDevices")
		}
		c.descending(path.Child("subPath"), mount.SubPath)
		c.descending(path.Child("subPathExpr"), mount.SubPathExpr)
		if mount.SubPath != "" && mount.SubPathExpr != "" {
			c.invalid(path.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		propagation := corev1.MountPropagationNone
		if mount.MountPropagation != nil {
			propagation = *mount.MountPropagation
		}
		oneOf(c.collector, path.Child("mountPropagation"), propagation, corev1.MountPropagationBidirectional,
			corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		if propagation == corev1.MountPropagationBidirectional && !privileged && !c.isPartial() {
			c.add(field.Forbidden(path.Child("mountPropagation"),
				"Bidirectional mount propagation is available only to privileged containers"))
		}
		c.recursiveReadOnly(&mount, propagation, path.Child("recursiveReadOnly"))
	}
}

// recursiveReadOnly follows validateMountRecursiveReadOnly.
func (c *container) recursiveReadOnly(
	mount *corev1.VolumeMount, propagation corev1.MountPropagationMode, path *field.Path,
) {
	if mount.RecursiveReadOnly == nil {
		return
	}
	mode := *mount.RecursiveReadOnly
	oneOf(c.collector, path, mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible,
		corev1.RecursiveReadOnlyEnabled)
	if mode == corev1.RecursiveReadOnlyDisabled {
		return
	}
	if !mount.ReadOnly {
		c.add(field.Forbidden(path, "may only be specified when readOnly is true"))
	}
	if propagation != corev1.MountPropagationNone {
		c.add(field.Forbidden(path, "may only be specified when mountPropagation is None or not specified"))
	}
}

// devices follows ValidateVolumeDevices; mounts checks what devices and mounts have in common.
func (c *container) devices() {
	names, paths := make(map[string]bool), make(map[string]bool)
	for i, device := range c.VolumeDevices {
		path := c.path.Child("volumeDevices").Index(i)
		if c.required(device.Name, path.Child("name")) {
			c.unique(names, device.Name, path.Child("name"))
			switch volume := c.pod.volume(device.Name); {
			case volume == nil && c.pod.whole:
				c.add(field.NotFound(path.Child("name"), device.Name))
			case volume != nil && volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil:
				c.invalid(path.Child("name"), device.Name,
					"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
			}
		}
		if c.required(device.DevicePath, path.Child("devicePath")) {
			c.unique(paths, device.DevicePath, path.Child("devicePath"))
			c.noBacksteps(path.Child("devicePath"), device.DevicePath)
		}
	}
}

// resizePolicy follows validateResizePolicy and the end of validateInitContainers.
func (c *container) resizePolicy() {
	names := make(map[string]bool)
	for i, policy := range c.ResizePolicy {
		path := c.path.Child("resizePolicy").Index(i)
		c.unique(names, string(policy.ResourceName), path.Child("resourceName"))
		oneOf(c.collector, path.Child("resourceName"), policy.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		oneOf(c.collector, path.Child("restartPolicy"), policy.RestartPolicy, corev1.NotRequired,
			corev1.RestartContainer)
		if policy.RestartPolicy == corev1.NotRequired {
			continue
		}
		if c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			c.invalid(path.Child("restartPolicy"), policy.RestartPolicy,
				"must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
		if c.completes() {
			c.invalid(path.Child("restartPolicy"), policy.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers")
		}
	}
}

// restartPolicy follows validateContainerRestartPolicy.
func (c *container) restartPolicy() {
	if c.RestartPolicy != nil {
		oneOf(c.collector, c.path.Child("restartPolicy"), *c.RestartPolicy, corev1.ContainerRestartPolicyAlways,
			corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
	rules := c.path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil && !c.isPartial() {
		c.add(field.Required(c.path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	if n := len(c.RestartPolicyRules); n > 20 {
		c.add(field.TooMany(rules, n, 20))
	}
	for i, rule := range c.RestartPolicyRules {
		path := rules.Index(i)
		oneOf(c.collector, path.Child("action"), rule.Action, corev1.ContainerRestartRuleActionRestart,
			corev1.ContainerRestartRuleActionRestartAllContainers)
		if rule.ExitCodes == nil {
			c.add(field.Required(path.Child("exitCodes"), "must be specified"))
			continue
		}
		oneOf(c.collector, path.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > 255 {
			c.add(field.TooMany(path.Child("exitCodes", "values"), n, 255))
		}
	}
}
