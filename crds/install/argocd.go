package install

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// health is the script by which Argo CD computes the health of an object of a kind. It opens no libraries
// but Lua's base, table, package and a part of os.
//
//go:embed argocd.lua
var health string

// ArgoCD returns the part of Argo CD's configuration that has a health check for each kind, without which Argo CD
// waits for none of their objects. It has no namespace: that of Argo CD differs between clusters.
func ArgoCD(kinds []*kind.Kind) (*unstructured.Unstructured, error) {
	checks := make(map[string]string)
	for _, k := range kind.WithoutDecorators(kinds) {
		checks["resource.customizations.health."+k.GroupVersionKind.Group+"_"+k.GroupVersionKind.Kind] = health
	}
	return clean(&corev1.ConfigMap{
		TypeMeta: typeMeta(corev1.SchemeGroupVersion, "ConfigMap"),
		ObjectMeta: metav1.ObjectMeta{
			Name:   "argocd-cm",
			Labels: map[string]string{"app.kubernetes.io/part-of": "argocd"}, // Argo CD reads no others
		},
		Data: checks,
	})
}
