package podrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// container follows validateContainerCommon, and validateContainers or validateInitContainers.
func (v *validator) container(c *corev1.Container, path *field.Path, scope *containerScope) {
	v.invalid(path.Child("name"), c.Name, validation.IsDNS1123Label(c.Name)...)
	switch {
	case scope.partial:
	case v.required(c.Image, path.Child("image")) && strings.TrimSpace(c.Image) != c.Image:
		v.invalid(path.Child("image"), c.Image, "must not have leading or trailing whitespace")
	}
	oneOf(v, path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, "", corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	v.pullPolicy(path.Child("imagePullPolicy"), c.ImagePullPolicy)
	v.ports(c.Ports, path.Child("ports"))
	v.env(c, path)
	v.mounts(c, path, scope)
	v.devices(c, path.Child("volumeDevices"))
	v.resources(&c.Resources, path.Child("resources"), scope)
	v.resizePolicy(c, path.Child("resizePolicy"), scope)
	v.securityContext(c.SecurityContext, path.Child("securityContext"))
	v.restartPolicy(c, path, scope)
	v.handlers(c, path, scope)
}

func (v *validator) pullPolicy(path *field.Path, policy corev1.PullPolicy) {
	oneOf(v, path, policy, "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

// ports follows validateContainerPorts.
func (v *validator) ports(ports []corev1.ContainerPort, path *field.Path) {
	names := make(map[string]bool)
	for i, port := range ports {
		path := path.Index(i)
		if port.Name != "" {
			v.invalid(path.Child("name"), port.Name, validation.IsValidPortName(port.Name)...)
			v.unique(names, port.Name, path.Child("name"))
		}
		v.invalid(path.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort))...)
		if port.HostPort != 0 {
			v.invalid(path.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort))...)
		}
		oneOf(v, path.Child("protocol"), port.Protocol, "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
}

// hostPort identifies a port of the node.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

// hostPorts follows AccumulateUniqueHostPorts, after defaultHostNetworkPorts.
func (v *validator) hostPorts(c *corev1.Container, path *field.Path, used map[hostPort]bool) {
	for i, port := range c.Ports {
		h := hostPort{port.Protocol, port.HostIP, port.HostPort}
		if h.protocol == "" {
			h.protocol = corev1.ProtocolTCP
		}
		if h.port == 0 && v.spec.HostNetwork {
			h.port = port.ContainerPort
		}
		if h.port == 0 {
			continue
		}
		if used[h] {
			v.add(field.Duplicate(path.Index(i).Child("hostPort"), fmt.Sprintf("%s/%s/%d", h.protocol, h.ip, h.port)))
		}
		used[h] = true
	}
}

// hostNetworkPorts follows validatePodHostNetworkDeps.
func (v *validator) hostNetworkPorts(c *corev1.Container, path *field.Path) {
	for i, port := range c.Ports {
		if v.spec.HostNetwork && port.HostPort != 0 && port.HostPort != port.ContainerPort {
			v.invalid(path.Index(i).Child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
}

// mounts follows ValidateVolumeMounts.
func (v *validator) mounts(c *corev1.Container, path *field.Path, scope *containerScope) {
	devices, devicePaths := make(map[string]bool), make(map[string]bool)
	for _, device := range c.VolumeDevices {
		devices[device.Name], devicePaths[device.DevicePath] = true, true
	}
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	mountPaths := make(map[string]bool)
	for i, mount := range c.VolumeMounts {
		path := path.Child("volumeMounts").Index(i)
		if v.required(mount.Name, path.Child("name")) && v.whole && v.volume(mount.Name) == nil {
			v.add(field.NotFound(path.Child("name"), mount.Name))
		}
		v.required(mount.MountPath, path.Child("mountPath"))
		v.unique(mountPaths, mount.MountPath, path.Child("mountPath"))
		if devices[mount.Name] {
			v.invalid(path.Child("name"), mount.Name, "must not already exist in volumeDevices")
		}
		if devicePaths[mount.MountPath] {
			v.invalid(path.Child("mountPath"), mount.MountPath, "must not already exist as a path in volumeDevices")
		}
		v.descending(path.Child("subPath"), mount.SubPath)
		v.descending(path.Child("subPathExpr"), mount.SubPathExpr)
		if mount.SubPath != "" && mount.SubPathExpr != "" {
			v.invalid(path.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		propagation := corev1.MountPropagationNone
		if mount.MountPropagation != nil {
			propagation = *mount.MountPropagation
		}
		oneOf(v, path.Child("mountPropagation"), propagation, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		if propagation == corev1.MountPropagationBidirectional && !privileged && !scope.partial {
			v.add(field.Forbidden(path.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
		}
		v.recursiveReadOnly(&mount, propagation, path.Child("recursiveReadOnly"))
	}
}

// recursiveReadOnly follows validateMountRecursiveReadOnly.
func (v *validator) recursiveReadOnly(mount *corev1.VolumeMount, propagation corev1.MountPropagationMode, path *field.Path) {
	if mount.RecursiveReadOnly == nil {
		return
	}
	mode := *mount.RecursiveReadOnly
	oneOf(v, path, mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
	if mode == corev1.RecursiveReadOnlyDisabled {
		return
	}
	if !mount.ReadOnly {
		v.add(field.Forbidden(path, "may only be specified when readOnly is true"))
	}
	if propagation != corev1.MountPropagationNone {
		v.add(field.Forbidden(path, "may only be specified when mountPropagation is None or not specified"))
	}
}

// devices follows ValidateVolumeDevices; mounts checks what devices and mounts have in common.
func (v *validator) devices(c *corev1.Container, path *field.Path) {
	names, paths := make(map[string]bool), make(map[string]bool)
	for i, device := range c.VolumeDevices {
		path := path.Index(i)
		if v.required(device.Name, path.Child("name")) {
			v.unique(names, device.Name, path.Child("name"))
			switch volume := v.volume(device.Name); {
			case volume == nil && v.whole:
				v.add(field.NotFound(path.Child("name"), device.Name))
			case volume != nil && volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil:
				v.invalid(path.Child("name"), device.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
			}
		}
		if v.required(device.DevicePath, path.Child("devicePath")) {
			v.unique(paths, device.DevicePath, path.Child("devicePath"))
			v.noBacksteps(path.Child("devicePath"), device.DevicePath)
		}
	}
}

// volume returns the volume with that name, or nil.
func (v *validator) volume(name string) *corev1.Volume {
	i := slices.IndexFunc(v.spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == name })
	if i < 0 {
		return nil
	}
	return &v.spec.Volumes[i]
}

// resizePolicy follows validateResizePolicy and the end of validateInitContainers.
func (v *validator) resizePolicy(c *corev1.Container, path *field.Path, scope *containerScope) {
	names := make(map[string]bool)
	for i, policy := range c.ResizePolicy {
		path := path.Index(i)
		v.unique(names, string(policy.ResourceName), path.Child("resourceName"))
		oneOf(v, path.Child("resourceName"), policy.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		oneOf(v, path.Child("restartPolicy"), policy.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if policy.RestartPolicy == corev1.NotRequired {
			continue
		}
		if v.spec.RestartPolicy == corev1.RestartPolicyNever {
			v.invalid(path.Child("restartPolicy"), policy.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
		if scope.init && !scope.runs && !scope.partial {
			v.invalid(path.Child("restartPolicy"), policy.RestartPolicy, "must not be set to 'RestartContainer' for non-sidecar initContainers")
		}
	}
}

// restartPolicy follows validateContainerRestartPolicy.
func (v *validator) restartPolicy(c *corev1.Container, path *field.Path, scope *containerScope) {
	if c.RestartPolicy != nil {
		oneOf(v, path.Child("restartPolicy"), *c.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
	rules := path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil && !scope.partial {
		v.add(field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	if n := len(c.RestartPolicyRules); n > 20 {
		v.add(field.TooMany(rules, n, 20))
	}
	for i, rule := range c.RestartPolicyRules {
		path := rules.Index(i)
		oneOf(v, path.Child("action"), rule.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		if rule.ExitCodes == nil {
			v.add(field.Required(path.Child("exitCodes"), "must be specified"))
			continue
		}
		oneOf(v, path.Child("exitCodes", "operator"), rule.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > 255 {
			v.add(field.TooMany(path.Child("exitCodes", "values"), n, 255))
		}
	}
}

// sortedKeys makes the order of the errors stable.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
