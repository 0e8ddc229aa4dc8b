package podrules

import (
	"fmt"
	"net"
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

// volumes follows ValidateVolumes.
func (v *validator) volumes(path *field.Path) {
	names, created := make(map[string]bool), make(map[string]bool)
	for i := range v.spec.Volumes {
		if volume := &v.spec.Volumes[i]; volume.Ephemeral != nil {
			created[v.name+"-"+volume.Name] = true
		}
	}
	for i := range v.spec.Volumes {
		volume := &v.spec.Volumes[i]
		path := v.item(path, i, volume.Name)
		v.invalid(path.Child("name"), volume.Name, validation.IsDNS1123Label(volume.Name)...)
		v.unique(names, volume.Name, path.Child("name"))
		if s := sources(volume); len(s) > 1 {
			v.add(field.Forbidden(path.Child(s[1]), fmt.Sprintf("a volume must have one source, and it already has %s", s[0])))
		}
		v.localVolume(volume, path)
		v.claimVolume(volume, path)
		v.networkVolume(volume, path)
		v.cloudVolume(volume, path)
		if claim := volume.PersistentVolumeClaim; claim != nil && v.name != "" && created[claim.ClaimName] {
			v.invalid(path.Child("persistentVolumeClaim", "claimName"), claim.ClaimName, "must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// localVolume checks the volumes whose content comes from the API or from the node.
func (v *validator) localVolume(volume *corev1.Volume, path *field.Path) {
	if s := volume.EmptyDir; s != nil && s.SizeLimit != nil {
		v.nonNegative(path.Child("emptyDir", "sizeLimit"), *s.SizeLimit)
	}
	if s := volume.HostPath; s != nil {
		path := path.Child("hostPath")
		v.required(s.Path, path.Child("path"))
		v.noBacksteps(path.Child("path"), s.Path)
		if s.Type != nil {
			oneOf(v, path.Child("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
				corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
		}
	}
	if s := volume.Secret; s != nil {
		path := path.Child("secret")
		v.required(s.SecretName, path.Child("secretName"))
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.items(s.Items, path.Child("items"))
	}
	if s := volume.ConfigMap; s != nil {
		path := path.Child("configMap")
		v.required(s.Name, path.Child("name"))
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.items(s.Items, path.Child("items"))
	}
	if s := volume.DownwardAPI; s != nil {
		path := path.Child("downwardAPI")
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.downwardFiles(s.Items, path.Child("items"))
	}
	if s := volume.Projected; s != nil {
		path := path.Child("projected")
		v.fileMode(path.Child("defaultMode"), s.DefaultMode)
		v.projected(s.Sources, path.Child("sources"))
	}
	if s := volume.Image; s != nil {
		path := path.Child("image")
		v.required(s.Reference, path.Child("reference"))
		v.pullPolicy(path.Child("pullPolicy"), s.PullPolicy)
	}
	if s := volume.GitRepo; s != nil {
		path := path.Child("gitRepo")
		v.required(s.Repository, path.Child("repository"))
		v.descending(path.Child("directory"), s.Directory)
	}
}

// items follows validateKeyToPath.
func (v *validator) items(items []corev1.KeyToPath, path *field.Path) {
	for i, item := range items {
		path := path.Index(i)
		v.required(item.Key, path.Child("key"))
		v.required(item.Path, path.Child("path"))
		v.fileName(path.Child("path"), item.Path)
		v.fileMode(path.Child("mode"), item.Mode)
	}
}

// downwardFiles follows validateDownwardAPIVolumeFile.
func (v *validator) downwardFiles(files []corev1.DownwardAPIVolumeFile, path *field.Path) {
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

// networkVolume checks the volumes that an address identifies.
func (v *validator) networkVolume(volume *corev1.Volume, path *field.Path) {
	if s := volume.NFS; s != nil {
		path := path.Child("nfs")
		v.required(s.Server, path.Child("server"))
		if v.required(s.Path, path.Child("path")) && !strings.HasPrefix(s.Path, "/") {
			v.invalid(path.Child("path"), s.Path, "must be an absolute path")
		}
	}
	if s := volume.ISCSI; s != nil {
		v.iscsi(volume.Name, s, path.Child("iscsi"))
	}
	if s := volume.Glusterfs; s != nil {
		v.required(s.EndpointsName, path.Child("glusterfs", "endpoints"))
		v.required(s.Path, path.Child("glusterfs", "path"))
	}
	if s := volume.RBD; s != nil {
		if len(s.CephMonitors) == 0 {
			v.add(field.Required(path.Child("rbd", "monitors"), ""))
		}
		v.required(s.RBDImage, path.Child("rbd", "image"))
	}
	if s := volume.CephFS; s != nil && len(s.Monitors) == 0 {
		v.add(field.Required(path.Child("cephfs", "monitors"), ""))
	}
	if s := volume.Flocker; s != nil {
		path := path.Child("flocker")
		if (s.DatasetName == "") == (s.DatasetUUID == "") {
			v.add(field.Required(path, "exactly one of datasetName and datasetUUID is required"))
		}
		if strings.Contains(s.DatasetName, "/") {
			v.invalid(path.Child("datasetName"), s.DatasetName, "must not contain '/'")
		}
	}
	if s := volume.FC; s != nil {
		path := path.Child("fc")
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
	if s := volume.Quobyte; s != nil {
		path := path.Child("quobyte")
		v.required(s.Volume, path.Child("volume"))
		if len(s.Tenant) > 64 {
			v.add(field.TooLong(path.Child("tenant"), "", 64))
		}
		for pair := range strings.SplitSeq(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				v.invalid(path.Child("registry"), s.Registry, "must be a host:port pair or multiple pairs separated by commas")
				break
			}
		}
	}
}

var iscsiNames = regexp.MustCompile(`^(iqn.*iqn|iqn)\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$|^eui.[[:alnum:]]{16}$|^naa.[[:alnum:]]{32}$`)

// iscsi follows validateISCSIVolumeSource.
func (v *validator) iscsi(name string, s *corev1.ISCSIVolumeSource, path *field.Path) {
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
	if len(name)+len(":")+len(s.TargetPortal) > 64 {
		v.invalid(path.Child("targetPortal"), s.TargetPortal, "must have at most 64 characters together with the name of the volume and a colon if initiatorName is specified")
	}
}

// cloudVolume checks the volumes of cloud providers and storage vendors.
func (v *validator) cloudVolume(volume *corev1.Volume, path *field.Path) {
	if s := volume.GCEPersistentDisk; s != nil {
		v.required(s.PDName, path.Child("gcePersistentDisk", "pdName"))
		v.inRange(path.Child("gcePersistentDisk", "partition"), int64(s.Partition), 0, 255)
	}
	if s := volume.AWSElasticBlockStore; s != nil {
		v.required(s.VolumeID, path.Child("awsElasticBlockStore", "volumeID"))
		v.inRange(path.Child("awsElasticBlockStore", "partition"), int64(s.Partition), 0, 255)
	}
	if s := volume.Cinder; s != nil {
		v.required(s.VolumeID, path.Child("cinder", "volumeID"))
		v.secretRef(s.SecretRef, path.Child("cinder", "secretRef"))
	}
	if s := volume.AzureFile; s != nil {
		v.required(s.SecretName, path.Child("azureFile", "secretName"))
		v.required(s.ShareName, path.Child("azureFile", "shareName"))
	}
	if s := volume.AzureDisk; s != nil {
		v.azureDisk(s, path.Child("azureDisk"))
	}
	if s := volume.VsphereVolume; s != nil {
		v.required(s.VolumePath, path.Child("vsphereVolume", "volumePath"))
	}
	if s := volume.PhotonPersistentDisk; s != nil {
		v.required(s.PdID, path.Child("photonPersistentDisk", "pdID"))
	}
	if s := volume.PortworxVolume; s != nil {
		v.required(s.VolumeID, path.Child("portworxVolume", "volumeID"))
	}
	if s := volume.ScaleIO; s != nil {
		path := path.Child("scaleIO")
		v.required(s.Gateway, path.Child("gateway"))
		v.required(s.System, path.Child("system"))
		v.required(s.VolumeName, path.Child("volumeName"))
	}
	if s := volume.StorageOS; s != nil {
		path := path.Child("storageos")
		v.invalid(path.Child("volumeName"), s.VolumeName, validation.IsDNS1123Label(s.VolumeName)...)
		if s.VolumeNamespace != "" {
			v.invalid(path.Child("volumeNamespace"), s.VolumeNamespace, validation.IsDNS1123Label(s.VolumeNamespace)...)
		}
		v.secretRef(s.SecretRef, path.Child("secretRef"))
	}
	if s := volume.FlexVolume; s != nil {
		path := path.Child("flexVolume")
		v.required(s.Driver, path.Child("driver"))
		for _, option := range sortedKeys(s.Options) {
			namespace, _, _ := strings.Cut(option, "/")
			namespace = "." + strings.ToLower(namespace)
			if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
				v.invalid(path.Child("options").Key(option), option, "kubernetes.io and k8s.io namespaces are reserved")
			}
		}
	}
	if s := volume.CSI; s != nil {
		path := path.Child("csi")
		v.csiDriver(s.Driver, path.Child("driver"))
		if s.NodePublishSecretRef != nil {
			v.objectName(path.Child("nodePublishSecretRef", "name"), s.NodePublishSecretRef.Name, false)
		}
	}
}

func (v *validator) secretRef(ref *corev1.LocalObjectReference, path *field.Path) {
	if ref != nil {
		v.required(ref.Name, path.Child("name"))
	}
}

// csiDriver follows ValidateCSIDriverName.
func (v *validator) csiDriver(driver string, path *field.Path) {
	if !v.required(driver, path) {
		return
	}
	if len(driver) > validation.DNS1123LabelMaxLength {
		v.add(field.TooLong(path, "", validation.DNS1123LabelMaxLength))
	}
	v.invalid(path, driver, validation.IsDNS1123Subdomain(strings.ToLower(driver))...)
}

// azureDisk follows validateAzureDisk.
func (v *validator) azureDisk(s *corev1.AzureDiskVolumeSource, path *field.Path) {
	v.required(s.DiskName, path.Child("diskName"))
	v.required(s.DataDiskURI, path.Child("diskURI"))
	if s.CachingMode != nil {
		oneOf(v, path.Child("cachingMode"), *s.CachingMode, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	kind := corev1.AzureSharedBlobDisk // SetDefaults_AzureDiskVolumeSource
	if s.Kind != nil {
		kind = *s.Kind
	}
	oneOf(v, path.Child("kind"), kind, corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)
	prefix := "https://"
	if kind == corev1.AzureManagedDisk {
		prefix = "/subscriptions/"
	}
	if !strings.HasPrefix(s.DataDiskURI, prefix) {
		v.invalid(path.Child("diskURI"), s.DataDiskURI, fmt.Sprintf("must begin with %s where the kind is %s", prefix, kind))
	}
}
