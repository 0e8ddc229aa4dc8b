package podrules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// projectedVolume is a volume whose sources share its paths.
type projectedVolume struct {
	*volume
	paths map[string]bool
}

// sources follows validateProjectionSources.
func (v *projectedVolume) sources(sources []corev1.VolumeProjection, path *field.Path) {
	for i := range sources {
		n, source, path := 0, &sources[i], path.Index(i)
		if s := source.Secret; s != nil {
			n++
			v.references(s.Name, s.Items, path.Child("secret"))
		}
		if s := source.ConfigMap; s != nil {
			n++
			v.references(s.Name, s.Items, path.Child("configMap"))
		}
		if s := source.DownwardAPI; s != nil {
			n++
			v.downwardFiles(s.Items, path.Child("downwardAPI", "items"))
			for i, item := range s.Items {
				v.file(item.Path, path.Child("downwardAPI", "items").Index(i).Child("path"))
			}
		}
		if s := source.ServiceAccountToken; s != nil {
			n++
			path := path.Child("serviceAccountToken")
			if s.ExpirationSeconds != nil { // SetDefaults_ServiceAccountTokenProjection
				v.inRange(path.Child("expirationSeconds"), *s.ExpirationSeconds, 600, 1<<32)
			}
			v.required(s.Path, path.Child("path"))
			v.fileName(path.Child("path"), s.Path)
		}
		if s := source.ClusterTrustBundle; s != nil {
			n++
			v.trustBundle(s, path.Child("clusterTrustBundle"))
		}
		if s := source.PodCertificate; s != nil {
			n++
			v.podCertificate(s, path.Child("podCertificate"))
		}
		if n > 1 {
			v.add(field.Forbidden(path, "may not specify more than 1 volume type per source"))
		}
	}
}

// file rejects a path that another source has.
func (v *projectedVolume) file(name string, path *field.Path) {
	if name != "" {
		v.unique(v.paths, name, path)
	}
}

func (v *projectedVolume) references(name string, items []corev1.KeyToPath, path *field.Path) {
	v.required(name, path.Child("name"))
	v.items(items, path.Child("items"))
	for i, item := range items {
		v.file(item.Path, path.Child("items").Index(i).Child("path"))
	}
}

// trustBundle checks a projection that the API server drops where its feature gate is off.
func (v *projectedVolume) trustBundle(s *corev1.ClusterTrustBundleProjection, path *field.Path) {
	v.required(s.Path, path.Child("path"))
	v.fileName(path.Child("path"), s.Path)
	v.file(s.Path, path.Child("path"))
	switch {
	case s.Name != nil && s.SignerName != nil:
		v.invalid(path, field.OmitValueType{}, "only one of name and signerName may be used")
	case s.Name != nil:
		v.trustBundleName(*s.Name, path.Child("name"))
		if s.LabelSelector != nil {
			v.invalid(path.Child("labelSelector"), field.OmitValueType{},
				"labelSelector must be unset if name is specified")
		}
	case s.SignerName != nil:
		v.signerName(*s.SignerName, path.Child("signerName"))
		v.add(metav1validation.ValidateLabelSelector(s.LabelSelector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("labelSelector"))...)
	default:
		v.add(field.Required(path, "either name or signerName must be specified"))
	}
}

// trustBundleName follows ValidateClusterTrustBundleName.
func (v *projectedVolume) trustBundleName(name string, path *field.Path) {
	v.required(name, path)
	if split := strings.LastIndexByte(name, ':'); split >= 0 {
		name = name[split+1:] // what is before it is the prefix that its signer requires
	}
	v.invalid(path, name, apivalidation.NameIsDNSSubdomain(name, false)...)
}

// podCertificate checks a projection that the API server drops where its feature gate is off.
func (v *projectedVolume) podCertificate(s *corev1.PodCertificateProjection, path *field.Path) {
	v.signerName(s.SignerName, path.Child("signerName"))
	oneOf(v.collector, path.Child("keyType"), s.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521",
		"ED25519")
	for _, key := range sortedKeys(s.UserAnnotations) {
		v.add(validation.IsDomainPrefixedKey(path.Child("userAnnotations"), strings.ToLower(key))...)
	}
	if err := apivalidation.ValidateAnnotationsSize(s.UserAnnotations); err != nil {
		v.invalid(path.Child("userAnnotations"), field.OmitValueType{}, err.Error())
	}
	if s.MaxExpirationSeconds != nil {
		limit := int64(91 * 24 * 60 * 60) // MaxMaxExpirationSeconds of pkg/apis/certificates
		if host, _, _ := strings.Cut(s.SignerName, "/"); host == "kubernetes.io" ||
			strings.HasSuffix(host, ".kubernetes.io") {
			limit = 24 * 60 * 60 // KubernetesMaxMaxExpirationSeconds
		}
		v.inRange(path.Child("maxExpirationSeconds"), int64(*s.MaxExpirationSeconds), 3600, limit)
	}
	n := 0
	for _, p := range []struct{ name, path string }{
		{"credentialBundlePath", s.CredentialBundlePath}, {"keyPath", s.KeyPath},
		{"certificateChainPath", s.CertificateChainPath},
	} {
		if p.path != "" {
			n++
			v.fileName(path.Child(p.name), p.path)
			v.file(p.path, path.Child(p.name))
		}
	}
	if n == 0 {
		v.add(field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
}

// signerName follows ValidateSignerName of pkg/apis/certificates/validation.
func (v *projectedVolume) signerName(name string, path *field.Path) {
	if !v.required(name, path) {
		return
	}
	domain, rest, found := strings.Cut(name, "/")
	if !found || strings.Contains(rest, "/") || !strings.Contains(domain, ".") {
		v.invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	for label := range strings.SplitSeq(domain, ".") {
		for _, message := range validation.IsDNS1123Label(label) {
			v.invalid(path, name, fmt.Sprintf("validating label %q: %s", label, message))
		}
	}
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		v.add(field.TooLong(path, "", validation.DNS1123SubdomainMaxLength))
	}
	for label := range strings.SplitSeq(rest, ".") {
		for _, message := range validation.IsDNS1123Subdomain(label) {
			v.invalid(path, name, fmt.Sprintf("validating label %q: %s", label, message))
		}
	}
	if limit := 2*validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 2; len(name) > limit {
		v.add(field.TooLong(path, "", limit))
	}
}
