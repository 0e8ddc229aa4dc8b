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
func (v *validator) securityContext(s *corev1.SecurityContext, path *field.Path) {
	if s == nil {
		return
	}
	if s.RunAsUser != nil {
		v.invalid(path.Child("runAsUser"), *s.RunAsUser, validation.IsValidUserID(*s.RunAsUser)...)
	}
	if s.RunAsGroup != nil {
		v.invalid(path.Child("runAsGroup"), *s.RunAsGroup, validation.IsValidGroupID(*s.RunAsGroup)...)
	}
	if s.ProcMount != nil {
		oneOf(v, path.Child("procMount"), *s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if v.whole && *s.ProcMount == corev1.UnmaskedProcMount && (v.spec.HostUsers == nil || *v.spec.HostUsers) {
			v.invalid(path.Child("procMount"), *s.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	if s.SeccompProfile != nil {
		v.seccompProfile(s.SeccompProfile, path.Child("seccompProfile"))
	}
	if s.AppArmorProfile != nil {
		v.appArmorProfile(s.AppArmorProfile, path.Child("appArmorProfile"))
	}
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if s.Privileged != nil && *s.Privileged {
			v.invalid(path, field.OmitValueType{}, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
			v.invalid(path, field.OmitValueType{}, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
		}
	}
	if s.WindowsOptions != nil {
		v.windowsOptions(s.WindowsOptions, path.Child("windowsOptions"))
	}
	v.system(s, path)
}

// system rejects the fields of the other operating system.
func (v *validator) system(s *corev1.SecurityContext, path *field.Path) {
	switch v.os() {
	case corev1.Linux:
		if s.WindowsOptions != nil {
			v.add(field.Forbidden(path.Child("windowsOptions"), "windows options cannot be set for a linux pod"))
		}
	case corev1.Windows:
		for _, linux := range []struct {
			name  string
			given bool
		}{
			{"allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil}, {"appArmorProfile", s.AppArmorProfile != nil},
			{"capabilities", s.Capabilities != nil}, {"privileged", s.Privileged != nil}, {"procMount", s.ProcMount != nil},
			{"readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil}, {"runAsGroup", s.RunAsGroup != nil},
			{"runAsUser", s.RunAsUser != nil}, {"seLinuxOptions", s.SELinuxOptions != nil}, {"seccompProfile", s.SeccompProfile != nil},
		} {
			if linux.given {
				v.add(field.Forbidden(path.Child(linux.name), "cannot be set for a windows pod"))
			}
		}
	}
}

// seccompProfile follows validateSeccompProfileField.
func (v *validator) seccompProfile(p *corev1.SeccompProfile, path *field.Path) {
	oneOf(v, path.Child("type"), p.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	path = path.Child("localhostProfile")
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		v.add(field.Required(path, "must be set when seccomp type is Localhost"))
	case local:
		v.descending(path, *p.LocalhostProfile)
	case p.LocalhostProfile != nil:
		v.invalid(path, *p.LocalhostProfile, "can only be set when seccomp type is Localhost")
	}
}

// appArmorProfile follows ValidateAppArmorProfileField.
func (v *validator) appArmorProfile(p *corev1.AppArmorProfile, path *field.Path) {
	const maxLength = 4095 // PATH_MAX - 1
	oneOf(v, path.Child("type"), p.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	path = path.Child("localhostProfile")
	switch local := p.Type == corev1.AppArmorProfileTypeLocalhost; {
	case local && (p.LocalhostProfile == nil || *p.LocalhostProfile == ""):
		v.add(field.Required(path, "must be set when AppArmor type is Localhost"))
	case local && strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile:
		v.invalid(path, *p.LocalhostProfile, "must not be padded with whitespace")
	case local && len(*p.LocalhostProfile) > maxLength:
		v.add(field.TooLong(path, "", maxLength))
	case !local && p.LocalhostProfile != nil:
		v.invalid(path, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
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
	windowsDNSName    = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	notInUserName     = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]|^[\. ]+$`)
)

// windowsOptions follows validateWindowsSecurityContextOptions.
func (v *validator) windowsOptions(o *corev1.WindowsSecurityContextOptions, path *field.Path) {
	if name := o.GMSACredentialSpecName; name != nil {
		v.invalid(path.Child("gmsaCredentialSpecName"), *name, validation.IsDNS1123Subdomain(*name)...)
	}
	if spec := o.GMSACredentialSpec; spec != nil && (*spec == "" || len(*spec) > maxGMSACredentialSpec) {
		v.invalid(path.Child("gmsaCredentialSpec"), field.OmitValueType{}, fmt.Sprintf("must have 1 to %d bytes", maxGMSACredentialSpec))
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
		v.invalid(path, *o.RunAsUserName, "cannot contain control characters")
	case qualified && (len(domain) > maxWindowsDomain || !netBIOSName.MatchString(domain) && !windowsDNSName.MatchString(domain)):
		v.invalid(path, *o.RunAsUserName, "the domain is neither a NetBIOS name nor a DNS name")
	case user == "" || len(user) > maxWindowsUser:
		v.invalid(path, *o.RunAsUserName, fmt.Sprintf("the user must have 1 to %d bytes", maxWindowsUser))
	case notInUserName.MatchString(user):
		v.invalid(path, *o.RunAsUserName, "the user cannot consist of periods and spaces only, nor contain any of \"/\\:;|=,+*?<>@[]")
	}
}

// hostProcesses follows validateWindowsHostProcessPod.
func (v *validator) hostProcesses(path *field.Path) {
	if !v.whole {
		return
	}
	var ofPod *bool
	if s := v.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		ofPod = s.WindowsOptions.HostProcess
	}
	host, all := 0, 0
	for c, path := range v.containers(path) {
		all++
		is := ofPod
		if s := c.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			is = s.WindowsOptions.HostProcess
			if ofPod != nil && *ofPod != *is {
				v.add(field.Forbidden(path.Child("securityContext", "windowsOptions", "hostProcess"), "must be that of the Pod, which has one"))
			}
		}
		if is != nil && *is {
			host++
		}
	}
	switch {
	case host == 0:
	case host < all:
		v.add(field.Forbidden(path, "if a Pod has any hostProcess containers, all must be hostProcess containers"))
	case !v.spec.HostNetwork:
		v.add(field.Forbidden(path.Child("hostNetwork"), "must be true if a Pod has any hostProcess containers"))
	}
}

// hostNamespaces follows validateHostUsers and the rules for shareProcessNamespace and
// hostnameOverride.
func (v *validator) hostNamespaces(path *field.Path) {
	s := v.spec
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		v.add(field.Forbidden(path.Child("shareProcessNamespace"), "when `hostPID` is true"))
	}
	if name := s.HostnameOverride; name != nil {
		path := path.Child("hostnameOverride")
		if len(*name) > 64 {
			v.add(field.TooLong(path, "", 64))
		}
		v.invalid(path, *name, validation.IsDNS1123Subdomain(*name)...)
		if s.HostNetwork || s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
			v.add(field.Forbidden(path, "when `hostNetwork` or `setHostnameAsFQDN` is true"))
		}
	}
	if s.NodeName != "" && len(s.SchedulingGates) > 0 {
		v.add(field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	if v.spec.HostUsers == nil || *v.spec.HostUsers {
		return
	}
	for _, host := range []struct {
		name  string
		given bool
	}{{"hostNetwork", s.HostNetwork}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}} {
		if host.given {
			v.add(field.Forbidden(path.Child(host.name), "when `hostUsers` is false"))
		}
	}
	for c, path := range v.containers(path) {
		if len(c.VolumeDevices) > 0 {
			v.add(field.Forbidden(path.Child("volumeDevices"), "when `hostUsers` is false"))
		}
	}
}

// sysctlName is sysctlContainSlashRegexp; a name has at most SysctlMaxLength bytes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// podSecurityContext follows validatePodSpecSecurityContext.
func (v *validator) podSecurityContext(path *field.Path) {
	s := v.spec.SecurityContext
	if s == nil {
		return
	}
	for _, given := range []struct {
		name string
		id   *int64
	}{{"fsGroup", s.FSGroup}, {"runAsGroup", s.RunAsGroup}, {"runAsUser", s.RunAsUser}} {
		if given.id != nil {
			v.invalid(path.Child(given.name), *given.id, validation.IsValidUserID(*given.id)...)
		}
	}
	for i, id := range s.SupplementalGroups {
		v.invalid(path.Child("supplementalGroups").Index(i), id, validation.IsValidGroupID(id)...)
	}
	for i, sysctl := range s.Sysctls {
		path := path.Child("sysctls").Index(i).Child("name")
		if len(sysctl.Name) > validation.DNS1123SubdomainMaxLength || !sysctlName.MatchString(sysctl.Name) {
			v.invalid(path, sysctl.Name, "must be the name of a sysctl")
		}
		if slices.ContainsFunc(s.Sysctls[:i], func(former corev1.Sysctl) bool { return former.Name == sysctl.Name }) {
			v.add(field.Duplicate(path, sysctl.Name))
		}
		name := strings.ReplaceAll(sysctl.Name, "/", ".")
		if v.spec.HostNetwork && strings.HasPrefix(name, "net.") {
			v.invalid(path, sysctl.Name, "may not be specified when 'hostNetwork' is true")
		}
		ipc := strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || name == "kernel.sem" || strings.HasPrefix(name, "fs.mqueue.")
		if v.spec.HostIPC && ipc {
			v.invalid(path, sysctl.Name, "may not be specified when 'hostIPC' is true")
		}
	}
	if s.FSGroupChangePolicy != nil {
		oneOf(v, path.Child("fsGroupChangePolicy"), *s.FSGroupChangePolicy, corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)
	}
	if s.SupplementalGroupsPolicy != nil {
		oneOf(v, path.Child("supplementalGroupsPolicy"), *s.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if s.SELinuxChangePolicy != nil {
		oneOf(v, path.Child("seLinuxChangePolicy"), *s.SELinuxChangePolicy, corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption)
	}
	if s.SeccompProfile != nil {
		v.seccompProfile(s.SeccompProfile, path.Child("seccompProfile"))
	}
	if s.AppArmorProfile != nil {
		v.appArmorProfile(s.AppArmorProfile, path.Child("appArmorProfile"))
	}
	if s.WindowsOptions != nil {
		v.windowsOptions(s.WindowsOptions, path.Child("windowsOptions"))
	}
}
