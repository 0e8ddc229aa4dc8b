// Package watcher is a kind as people write it in Go: with core types embedded in its
// spec. What controller-gen makes of it is what Fescue's CRD of the same kind is
// compared with.
//
// +groupName=watch.fescue.dev
// +versionName=v1alpha1
package watcher

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Watcher runs a container beside a configuration.
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

// Spec is what is to run, and with which configuration.
type Spec struct {
	// container is what runs.
	Container corev1.Container `json:"container"`
	// volume is mounted by the container.
	// +optional
	Volume *corev1.Volume `json:"volume,omitempty"`
	// configData is the text of the configuration.
	// +optional
	ConfigData map[string]string `json:"configData,omitempty"`
	// configBinaryData is the part of the configuration that is not text.
	// +optional
	ConfigBinaryData map[string][]byte `json:"configBinaryData,omitempty"`
	// imagePullSecrets is the secret that the image is pulled with.
	// +optional
	ImagePullSecrets *corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// Status is what became of it.
type Status struct {
	// configMapName is the name of the ConfigMap that holds the configuration.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`
}
