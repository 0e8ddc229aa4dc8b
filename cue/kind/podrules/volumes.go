package podrules

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sources returns the names of the sources that a volume has, sorted. One without any gets an emptyDir:
// SetDefaults_Volume.
func sources(volume *corev1.Volume) (names []string) {
	given := reflect.ValueOf(volume.VolumeSource)
	for i := range given.NumField() {
		if !given.Field(i).IsNil() {
			name, _, _ := strings.Cut(given.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// volume is a volume of a Pod.
type volume struct {
	*corev1.Volume
	*collector
	pod  *pod
	path *field.Path
}

// volumes follows ValidateVolumes, but for the types that Kubernetes removed or moved to CSI.
func (p *pod) volumes() {
	names, created := make(map[string]bool), make(map[string]bool)
	for i := range p.Spec.Volumes {
		if volume := &p.Spec.Volumes[i]; volume.Ephemeral != nil {
			created[p.Name+"-"+volume.Name] = true
		}
	}
	for i := range p.Spec.Volumes {
		of := &p.Spec.Volumes[i]
		v := &volume{of, p.collector, p, p.item("volumes", i, of.Name)}
		v.invalid(v.path.Child("name"), v.Name, validation.IsDNS1123Label(v.Name)...)
		v.unique(names, v.Name, v.path.Child("name"))
		v.source()
		if claim := v.PersistentVolumeClaim; claim != nil && p.Name != "" && created[claim.ClaimName] {
			v.invalid(v.path.Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// source follows validateVolumeSource.
func (v *volume) source() {
	if s := sources(v.Volume); len(s) > 1 {
		v.add(field.Forbidden(v.path.Child(s[1]), fmt.Sprintf("a volume must have one source, and it already has %s",
			s[0])))
	}
	v.local()
	v.claim()
	v.network()
	v.driver()
}

// local checks the volumes whose content comes from the API or from the node.
func (v *volume) local() {
	if s := v.EmptyDir; s != nil && s.SizeLimit != nil {
		v.nonNegative(v.path.Child("emptyDir", "sizeLimit"), *s.SizeLimit)
	}
	if s := v.HostPath; s != nil {
		path := v.path.Child("hostPath")
		v.required(s.Path, path.Child("path"))
		v.noBacksteps(path.Child("path"), s.Path)
		if s.Type != nil {
			oneOf(v.collector, path.Child("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate,
				corev1.HostPathDirectory,
				corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev,
				corev1.HostPathBlockDev)
		}
	}
	if s := v.Secret; s != nil {
		path := v.path.Child("secret")
		v.required(s.SecretName, path.Child("secretName"))
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.items(s.Items, path.Child("items"))
	}
	if s := v.ConfigMap; s != nil {
		path := v.path.Child("configMap")
		v.required(s.Name, path.Child("name"))
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.items(s.Items, path.Child("items"))
	}
	if s := v.DownwardAPI; s != nil {
		path := v.path.Child("downwardAPI")
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.downwardFiles(s.Items, path.Child("items"))
	}
	if s := v.Projected; s != nil {
		path := v.path.Child("projected")
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		(&projectedVolume{v, make(map[string]bool)}).sources(s.Sources, path.Child("sources"))
	}
	if s := v.Image; s != nil {
		path := v.path.Child("image")
		v.required(s.Reference, path.Child("reference"))
		v.pullPolicy(path.Child("pullPolicy"), s.PullPolicy)
	}
}

// items follows validateKeyToPath.
func (v *volume) items(items []corev1.KeyToPath, path *field.Path) {
	for i, item := range items {
		path := path.Index(i)
		v.required(item.Key, path.Child("key"))
		v.required(item.Path, path.Child("path"))
		v.fileName(path.Child("path"), item.Path)
		v.fileMode(path.Child("mode"), item.Mode)
	}
}

// downwardFiles follows validateDownwardAPIVolumeFile.
func (v *volume) downwardFiles(files []corev1.DownwardAPIVolumeFile, path *field.Path) {
	for i, file := range files {
		path := path.Index(i)
		v.required(file.Path, path.Child("path"))
		v.fileName(path.Child("path"), file.Path)
		v.fileMode(path.Child("mode"), file.Mode)
		switch {
		case file.FieldRef == nil && file.ResourceFieldRef == nil:
			v.add(field.Required(path, "one of fieldRef and resourceFieldRef is required"))
		case file.FieldRef != nil && file.ResourceFieldRef != nil:
			v.invalid(path, field.OmitValueType{}, "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
		if file.FieldRef != nil {
			v.fieldRef(file.FieldRef, path.Child("fieldRef"), volumeFields)
		}
		if file.ResourceFieldRef != nil {
			v.required(file.ResourceFieldRef.ContainerName, path.Child("resourceFieldRef", "containerName"))
			v.resourceFieldRef(file.ResourceFieldRef, path.Child("resourceFieldRef"))
		}
	}
}

// network checks the volumes that an address identifies.
func (v *volume) network() {
	if s := v.NFS; s != nil {
		path := v.path.Child("nfs")
		v.required(s.Server, path.Child("server"))
		if v.required(s.Path, path.Child("path")) && !strings.HasPrefix(s.Path, "/") {
			v.invalid(path.Child("path"), s.Path, "must be an absolute path")
		}
	}
	if s := v.ISCSI; s != nil {
		v.iscsi(s, v.path.Child("iscsi"))
	}
	if s := v.FC; s != nil {
		path := v.path.Child("fc")
		if (len(s.TargetWWNs) == 0) == (len(s.WWIDs) == 0) {
			v.add(field.Required(path.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
		}
		switch {
		case len(s.TargetWWNs) == 0:
		case s.Lun == nil:
			v.add(field.Required(path.Child("lun"), "lun is required if targetWWNs is specified"))
		default:
			v.inRange(path.Child("lun"), int64(*s.Lun), 0, 255)
		}
	}
}

var iscsiNames = regexp.MustCompile(
	`^(iqn.*iqn|iqn)\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$|^eui.[[:alnum:]]{16}$|^naa.[[:alnum:]]{32}$`)

// iscsi follows validateISCSIVolumeSource.
func (v *volume) iscsi(s *corev1.ISCSIVolumeSource, path *field.Path) {
	v.required(s.TargetPortal, path.Child("targetPortal"))
	if v.required(s.IQN, path.Child("iqn")) && !iscsiNames.MatchString(s.IQN) {
		v.invalid(path.Child("iqn"), s.IQN, "must be valid format starting with iqn, eui, or naa")
	}
	v.inRange(path.Child("lun"), int64(s.Lun), 0, 255)
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		v.add(field.Required(path.Child("secretRef"), ""))
	}
	if s.InitiatorName == nil {
		return
	}
	if !iscsiNames.MatchString(*s.InitiatorName) {
		v.invalid(path.Child("initiatorName"), *s.InitiatorName, "must be valid format starting with iqn, eui, or naa")
	}
	if len(v.Name)+len(":")+len(s.TargetPortal) > 64 {
		v.invalid(path.Child("targetPortal"), s.TargetPortal,
			"must have at most 64 characters together with the name of the volume and a colon if initiatorName is specified")
	}
}

// driver checks the volumes of drivers.
func (v *volume) driver() {
	if s := v.FlexVolume; s != nil {
		path := v.path.Child("flexVolume")
		v.required(s.Driver, path.Child("driver"))
		for _, option := range sortedKeys(s.Options) {
			namespace, _, _ := strings.Cut(option, "/")
			namespace = "." + strings.ToLower(namespace)
			if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
				v.invalid(path.Child("options").Key(option), option, "kubernetes.io and k8s.io namespaces are reserved")
			}
		}
	}
	if s := v.CSI; s != nil {
		path := v.path.Child("csi")
		v.csiDriver(s.Driver, path.Child("driver"))
		if s.NodePublishSecretRef != nil {
			v.objectName(path.Child("nodePublishSecretRef", "name"), s.NodePublishSecretRef.Name, false)
		}
	}
}

// csiDriver follows ValidateCSIDriverName.
func (v *volume) csiDriver(driver string, path *field.Path) {
	if !v.required(driver, path) {
		return
	}
	if len(driver) > validation.DNS1123LabelMaxLength {
		v.add(field.TooLong(path, "", validation.DNS1123LabelMaxLength))
	}
	v.invalid(path, driver, validation.IsDNS1123Subdomain(strings.ToLower(driver))...)
}
