// Package watcher is a kind in Go, with core types embedded in its spec. Its CRD by controller-gen
// is compared with Fescue's CRD of the same kind.
//
// +groupName=watch.fescue.dev
// +versionName=v1alpha1
package watcher

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Watcher is the template of a sidecar, and its configuration.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=watchers,singular=watcher
type Watcher struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
	// +optional
	Status Status `json:"status,omitempty"`
}

// Spec of a Watcher.
type Spec struct {
	// container is the sidecar.
	Container corev1.Container `json:"container"`
	// volume is a volume that the sidecar mounts.
	// +optional
	Volume *corev1.Volume `json:"volume,omitempty"`
	// configData is the data of the ConfigMap for the sidecar.
	// +optional
	ConfigData map[string]string `json:"configData,omitempty"`
	// configBinaryData is the binary data of the ConfigMap for the sidecar, in base64.
	// +optional
	ConfigBinaryData map[string][]byte `json:"configBinaryData,omitempty"`
	// imagePullSecrets is the secret for pulling the sidecar's image.
	// +optional
	ImagePullSecrets *corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// Status of a Watcher.
type Status struct {
	// configMapName is the name of the ConfigMap.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`
}
