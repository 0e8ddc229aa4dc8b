package podrules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// securityContext follows ValidateSecurityContext, and validateLinux and validateWindows for
// containers.
func (c *container) securityContext() {
	s, path := c.SecurityContext, c.path.Child("securityContext")
	if s == nil {
		return
	}
	if s.RunAsUser != nil {
		c.invalid(path.Child("runAsUser"), *s.RunAsUser, validation.IsValidUserID(*s.RunAsUser)...)
	}
	if s.RunAsGroup != nil {
		c.invalid(path.Child("runAsGroup"), *s.RunAsGroup, validation.IsValidGroupID(*s.RunAsGroup)...)
	}
	if s.ProcMount != nil {
		oneOf(c.collector, path.Child("procMount"), *s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if c.pod.whole && *s.ProcMount == corev1.UnmaskedProcMount &&
			(c.pod.Spec.HostUsers == nil || *c.pod.Spec.HostUsers) {
			c.invalid(path.Child("procMount"), *s.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	if s.SeccompProfile != nil {
		c.seccompProfile(s.SeccompProfile, path.Child("seccompProfile"))
	}
	if s.AppArmorProfile != nil {
		c.appArmorProfile(s.AppArmorProfile, path.Child("appArmorProfile"))
	}
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if s.Privileged != nil && *s.Privileged {
			c.invalid(path, field.OmitValueType{},
				"cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
			c.invalid(path, field.OmitValueType{},
				"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
		}
	}
	if s.WindowsOptions != nil {
		c.windowsOptions(s.WindowsOptions, path.Child("windowsOptions"))
	}
	c.system(s, path)
}

// system rejects the fields of the other operating system.
func (c *container) system(s *corev1.SecurityContext, path *field.Path) {
	switch c.pod.os() {
	case corev1.Linux:
		if s.WindowsOptions != nil {
			c.add(field.Forbidden(path.Child("windowsOptions"), "windows options cannot be set for a linux pod"))
		}
	case corev1.Windows:
		for _, linux := range []struct {
			name  string
			given bool
		}{
			{"allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil},
			{"appArmorProfile", s.AppArmorProfile != nil},
			{"capabilities", s.Capabilities != nil}, {"privileged", s.Privileged != nil},
			{"procMount", s.ProcMount != nil},
			{"readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil}, {"runAsGroup", s.RunAsGroup != nil},
			{"runAsUser", s.RunAsUser != nil}, {"seLinuxOptions", s.SELinuxOptions != nil},
			{"seccompProfile", s.SeccompProfile != nil},
		} {
			if linux.given {
				c.add(field.Forbidden(path.Child(linux.name), "cannot be set for a windows pod"))
			}
		}
	}
}

// hostProcesses follows validateWindowsHostProcessPod.
func (p *pod) hostProcesses() {
	if !p.whole {
		return
	}
	var ofPod *bool
	if s := p.Spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		ofPod = s.WindowsOptions.HostProcess
	}
	host, all := 0, 0
	for _, c := range p.allContainers() {
		all++
		is := ofPod
		if s := c.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			is = s.WindowsOptions.HostProcess
			if ofPod != nil && *ofPod != *is {
				p.add(field.Forbidden(c.path.Child("securityContext", "windowsOptions", "hostProcess"),
					"must be that of the Pod, which has one"))
			}
		}
		if is != nil && *is {
			host++
		}
	}
	switch {
	case host == 0:
	case host < all:
		p.add(field.Forbidden(p.spec, "if a Pod has any hostProcess containers, all must be hostProcess containers"))
	case !p.Spec.HostNetwork:
		p.add(field.Forbidden(p.spec.Child("hostNetwork"), "must be true if a Pod has any hostProcess containers"))
	}
}

// hostNamespaces follows validateHostUsers and the rules for shareProcessNamespace and
// hostnameOverride.
func (p *pod) hostNamespaces() {
	s, path := &p.Spec, p.spec
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		p.add(field.Forbidden(path.Child("shareProcessNamespace"), "when `hostPID` is true"))
	}
	if name := s.HostnameOverride; name != nil {
		path := path.Child("hostnameOverride")
		if len(*name) > 64 {
			p.add(field.TooLong(path, "", 64))
		}
		p.invalid(path, *name, validation.IsDNS1123Subdomain(*name)...)
		if s.HostNetwork || s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
			p.add(field.Forbidden(path, "when `hostNetwork` or `setHostnameAsFQDN` is true"))
		}
	}
	if s.NodeName != "" && len(s.SchedulingGates) > 0 {
		p.add(field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	if s.HostUsers == nil || *s.HostUsers {
		return
	}
	for _, host := range []struct {
		name  string
		given bool
	}{{"hostNetwork", s.HostNetwork}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}} {
		if host.given {
			p.add(field.Forbidden(path.Child(host.name), "when `hostUsers` is false"))
		}
	}
	for _, c := range p.allContainers() {
		if len(c.VolumeDevices) > 0 {
			p.add(field.Forbidden(c.path.Child("volumeDevices"), "when `hostUsers` is false"))
		}
	}
}

// sysctlName is sysctlContainSlashRegexp; a name has at most SysctlMaxLength bytes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// securityContext follows validatePodSpecSecurityContext.
func (p *pod) securityContext() {
	s, path := p.Spec.SecurityContext, p.spec.Child("securityContext")
	if s == nil {
		return
	}
	for _, given := range []struct {
		name string
		id   *int64
	}{{"fsGroup", s.FSGroup}, {"runAsGroup", s.RunAsGroup}, {"runAsUser", s.RunAsUser}} {
		if given.id != nil {
			p.invalid(path.Child(given.name), *given.id, validation.IsValidUserID(*given.id)...)
		}
	}
	for i, id := range s.SupplementalGroups {
		p.invalid(path.Child("supplementalGroups").Index(i), id, validation.IsValidGroupID(id)...)
	}
	for i, sysctl := range s.Sysctls {
		path := path.Child("sysctls").Index(i).Child("name")
		if len(sysctl.Name) > validation.DNS1123SubdomainMaxLength || !sysctlName.MatchString(sysctl.Name) {
			p.invalid(path, sysctl.Name, "must be the name of a sysctl")
		}
		if slices.ContainsFunc(s.Sysctls[:i], func(former corev1.Sysctl) bool { return former.Name == sysctl.Name }) {
			p.add(field.Duplicate(path, sysctl.Name))
		}
		name := strings.ReplaceAll(sysctl.Name, "/", ".")
		if p.Spec.HostNetwork && strings.HasPrefix(name, "net.") {
			p.invalid(path, sysctl.Name, "may not be specified when 'hostNetwork' is true")
		}
		ipc := strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || name == "kernel.sem" ||
			strings.HasPrefix(name, "fs.mqueue.")
		if p.Spec.HostIPC && ipc {
			p.invalid(path, sysctl.Name, "may not be specified when 'hostIPC' is true")
		}
	}
	if s.FSGroupChangePolicy != nil {
		oneOf(p.collector, path.Child("fsGroupChangePolicy"), *s.FSGroupChangePolicy,
			corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)
	}
	if s.SupplementalGroupsPolicy != nil {
		oneOf(p.collector, path.Child("supplementalGroupsPolicy"), *s.SupplementalGroupsPolicy,
			corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if s.SELinuxChangePolicy != nil {
		oneOf(p.collector, path.Child("seLinuxChangePolicy"), *s.SELinuxChangePolicy,
			corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption)
	}
	if s.SeccompProfile != nil {
		p.seccompProfile(s.SeccompProfile, path.Child("seccompProfile"))
	}
	if s.AppArmorProfile != nil {
		p.appArmorProfile(s.AppArmorProfile, path.Child("appArmorProfile"))
	}
	if s.WindowsOptions != nil {
		p.windowsOptions(s.WindowsOptions, path.Child("windowsOptions"))
	}
}

// seccompProfile follows validateSeccompProfileField.
func (c *collector) seccompProfile(p *corev1.SeccompProfile, path *field.Path) {
	oneOf(c, path.Child("type"), p.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault,
		corev1.SeccompProfileTypeUnconfined)
	path = path.Child("localhostProfile")
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		c.add(field.Required(path, "must be set when seccomp type is Localhost"))
	case local:
		c.descending(path, *p.LocalhostProfile)
	case p.LocalhostProfile != nil:
		c.invalid(path, *p.LocalhostProfile, "can only be set when seccomp type is Localhost")
	}
}

// appArmorProfile follows ValidateAppArmorProfileField.
func (c *collector) appArmorProfile(p *corev1.AppArmorProfile, path *field.Path) {
	const maxLength = 4095 // PATH_MAX - 1
	oneOf(c, path.Child("type"), p.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault,
		corev1.AppArmorProfileTypeUnconfined)
	path = path.Child("localhostProfile")
	switch local := p.Type == corev1.AppArmorProfileTypeLocalhost; {
	case local && (p.LocalhostProfile == nil || *p.LocalhostProfile == ""):
		c.add(field.Required(path, "must be set when AppArmor type is Localhost"))
	case local && strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile:
		c.invalid(path, *p.LocalhostProfile, "must not be padded with whitespace")
	case local && len(*p.LocalhostProfile) > maxLength:
		c.add(field.TooLong(path, "", maxLength))
	case !local && p.LocalhostProfile != nil:
		c.invalid(path, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
	}
}

// The limits and the patterns are those of validateWindowsSecurityContextOptions.
const (
	maxGMSACredentialSpec = 64 << 10
	maxWindowsDomain      = 255
	maxWindowsUser        = 104
)

var (
	controlCharacters = regexp.MustCompile(`[[:cntrl:]]`)
	netBIOSName       = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	windowsDNSName    = regexp.MustCompile(
		`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	notInUserName = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]|^[\. ]+$`)
)

// windowsOptions follows validateWindowsSecurityContextOptions.
func (c *collector) windowsOptions(o *corev1.WindowsSecurityContextOptions, path *field.Path) {
	if name := o.GMSACredentialSpecName; name != nil {
		c.invalid(path.Child("gmsaCredentialSpecName"), *name, validation.IsDNS1123Subdomain(*name)...)
	}
	if spec := o.GMSACredentialSpec; spec != nil && (*spec == "" || len(*spec) > maxGMSACredentialSpec) {
		c.invalid(path.Child("gmsaCredentialSpec"), field.OmitValueType{},
			fmt.Sprintf("must have 1 to %d bytes", maxGMSACredentialSpec))
	}
	if o.RunAsUserName == nil {
		return
	}
	path = path.Child("runAsUserName")
	domain, user, qualified := strings.Cut(*o.RunAsUserName, `\`)
	if !qualified {
		domain, user = "", domain
	}
	switch {
	case controlCharacters.MatchString(*o.RunAsUserName):
		c.invalid(path, *o.RunAsUserName, "cannot contain control characters")
	case qualified && (len(domain) > maxWindowsDomain || !netBIOSName.MatchString(domain) &&
		!windowsDNSName.MatchString(domain)):
		c.invalid(path, *o.RunAsUserName, "the domain is neither a NetBIOS name nor a DNS name")
	case user == "" || len(user) > maxWindowsUser:
		c.invalid(path, *o.RunAsUserName, fmt.Sprintf("the user must have 1 to %d bytes", maxWindowsUser))
	case notInUserName.MatchString(user):
		c.invalid(path, *o.RunAsUserName,
			"the user cannot consist of periods and spaces only, nor contain any of \"/\\:;|=,+*?<>@[]")
	}
}

// profileAnnotations follows validateSeccompAnnotationsAndFields and
// validateAppArmorAnnotationsAndFieldsMatchOnCreate for the containers of a Pod.
func (p *pod) profileAnnotations() {
	if len(p.Annotations) == 0 {
		return
	}
	match := func(prefix, name string, profile, localhost *string, path *field.Path) {
		annotation, found := p.Annotations[prefix+name]
		if found && profile != nil && !profileMatches(annotation, *profile, localhost) {
			p.add(field.Forbidden(path, "does not match the annotation of the Pod for this container"))
		}
	}
	for _, c := range p.allContainers() {
		path := c.path.Child("securityContext")
		if s := c.SecurityContext; s != nil && s.SeccompProfile != nil {
			match(corev1.SeccompContainerAnnotationKeyPrefix, c.Name, (*string)(&s.SeccompProfile.Type),
				s.SeccompProfile.LocalhostProfile, path.Child("seccompProfile"))
		}
		var appArmor *corev1.AppArmorProfile
		if s := p.Spec.SecurityContext; s != nil {
			appArmor = s.AppArmorProfile
		}
		if s := c.SecurityContext; s != nil && s.AppArmorProfile != nil {
			appArmor = s.AppArmorProfile
		}
		if appArmor != nil && p.os() != corev1.Windows {
			match(corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, c.Name, (*string)(&appArmor.Type),
				appArmor.LocalhostProfile, path.Child("appArmorProfile"))
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
		return annotation == corev1.SeccompProfileRuntimeDefault ||
			annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case string(corev1.SeccompProfileTypeLocalhost):
		return localhost != nil && annotation == corev1.SeccompLocalhostProfileNamePrefix+*localhost
	}
	return true // is rejected for its type
}
